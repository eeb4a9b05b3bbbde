//! The effect of a step on a state.

use std::sync::Arc;

use policy_sync_api::moment::Moment;
use policy_sync_controller::sync::write::works::{self, ExistingWork, RejectedWrite};
use policy_sync_controller::sync::write::{OwnWrites, UndeliveredWrite};
use policy_sync_hub::reconcile::Expectation;
use policy_sync_mirror::Source;
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::{DECISIONS, PLACEMENTS, needed, role_of};
use policy_sync_sync::{Key, Keys, WorkKey};

use crate::agent;
use crate::controller::{MirrorEvent, MirrorUpdate, RequestPurpose, id_of};
use crate::hub::Entry;
use crate::state::{Feed, Job, ListState, State, confirms};
use crate::step::{RequestOutcome, STATUS_WINDOW, Step, Sync};

impl Sync<'_> {
    pub(crate) fn apply_step(&mut self, state: &mut State, step: &Step) {
        match step {
            Step::User(actor) => {
                let change = &self.world.actors[*actor][state.remaining.done[*actor]];
                state.remaining.done[*actor] += 1;
                change.make(Arc::make_mut(&mut state.hub), &mut self.contents);
            }
            Step::DeliverEvent(source) => self.report_next(state, source),
            Step::Page(source) => self.page(state, source),
            Step::Expire(source) => {
                state.remaining.faults -= 1;
                state.feeds.insert(source.clone(), Feed::default());
            }
            Step::Decide(key) => self.decide(state, key),
            Step::Send(key, index, outcome) => {
                self.send(state, key, *index, *outcome);
                self.finish(state, key);
            }
            Step::Late(index) => {
                let late = state.late.remove(*index);
                let _ = Arc::make_mut(&mut state.hub).serve(&mut self.contents, &late.request, late.id);
            }
            Step::Check(key) => {
                let confirms = confirms(&state.hub, &state.jobs[key].reads);
                let job = job(state, key);
                let unconfirmed_deletes = std::mem::take(&mut job.unconfirmed_deletes);
                if confirms {
                    job.in_flight.extend(unconfirmed_deletes);
                } else {
                    job.failed = true;
                }
                self.finish(state, key);
            }
            Step::Agent(key) => agent::run(Arc::make_mut(&mut state.hub), &mut self.contents, key),
            Step::Time => {
                let due = state.timers.values().min().copied().unwrap_or(state.now);
                state.now = state.now.max(due);
                let (now, timers) = (state.now, std::mem::take(&mut state.timers));
                for (key, due) in timers {
                    if due <= now {
                        push(state, key);
                    } else {
                        state.timers.insert(key, due);
                    }
                }
            }
            Step::Crash => {
                state.remaining.crashes -= 1;
                self.boot(state);
            }
        }
        self.deliver_events(state);
    }

    /// Starts the process, and lists all needed kinds in one step. The order of these lists does not matter, because
    /// nothing is decided before the last list. A change between two lists has the same effect as an event after both
    /// lists.
    pub(crate) fn boot(&mut self, state: &mut State) {
        state.mirror_state = self.controller.empty_mirror();
        state.feeds.clear();
        state.queue.clear();
        state.timers.clear();
        state.jobs.clear();
        state.own.clear();
        for source in needed() {
            self.report_event(state, &MirrorEvent::ListStarted(source.clone()));
            for (key, entry) in state.hub.listed(&source) {
                self.report_event(state, &MirrorEvent::Object(source.clone(), key, entry));
            }
            self.report_event(state, &MirrorEvent::ListEnded(source.clone(), state.hub.version(&source)));
            state.feeds.insert(source, Feed { listing: ListState::Done, ..Feed::default() });
        }
        Arc::make_mut(&mut state.hub).events.clear();
    }

    /// Delivers new events to the feeds of their sources.
    fn deliver_events(&mut self, state: &mut State) {
        if state.hub.events.is_empty() {
            return;
        }
        for (source, event) in std::mem::take(&mut Arc::make_mut(&mut state.hub).events) {
            let feed = state.feeds.get_mut(&source);
            if let Some(feed) = feed.filter(|feed| !matches!(feed.listing, ListState::Unlisted)) {
                feed.events.push_back(event);
            }
        }
    }

    fn report_event(&mut self, state: &mut State, reported: &MirrorEvent) {
        if let MirrorEvent::Object(source, key, entry) = reported
            && (source.is(&PLACEMENTS) || source.is(&DECISIONS))
        {
            let known = state.mirror_state.shown.get(&(source.clone(), key.clone()));
            if known.is_none_or(|known| known.version != entry.version) {
                state.tally.placed = state.now;
            }
        }
        let MirrorUpdate { mirror_state, keys, .. } =
            self.controller.report_event(&state.mirror_state, reported, state.now);
        state.mirror_state = mirror_state;
        self.add(state, keys);
    }

    fn report_next(&mut self, state: &mut State, source: &Source) {
        let Some(event) = state.feeds.get_mut(source).and_then(|feed| feed.events.pop_front()) else {
            return;
        };
        let reported = match event.content {
            Some(content) => {
                MirrorEvent::Object(source.clone(), event.key, Entry { content, version: event.version })
            }
            None => MirrorEvent::Deleted(source.clone(), event.key, event.version),
        };
        self.report_event(state, &reported);
    }

    /// The next page, with one object.
    fn page(&mut self, state: &mut State, source: &Source) {
        let Some(feed) = state.feeds.get_mut(source) else { return };
        let (mut pages, version) = match std::mem::take(&mut feed.listing) {
            ListState::Pages(pages, version) => (pages, version),
            _ => {
                feed.listing = ListState::Pages(Default::default(), 0);
                let pages = state.hub.listed(source).collect();
                self.report_event(state, &MirrorEvent::ListStarted(source.clone()));
                (pages, state.hub.version(source))
            }
        };
        if let Some((key, entry)) = pages.pop_front() {
            self.report_event(state, &MirrorEvent::Object(source.clone(), key, entry));
        }
        let listing = if pages.is_empty() {
            self.report_event(state, &MirrorEvent::ListEnded(source.clone(), version));
            ListState::Done
        } else {
            ListState::Pages(pages, version)
        };
        if let Some(feed) = state.feeds.get_mut(source) {
            feed.listing = listing;
        }
    }

    /// Queues keys. The watch plan is applied at once, because it is always first in the queue and sends no
    /// request.
    fn add(&mut self, state: &mut State, keys: Keys) {
        for key in keys {
            match key {
                Key::Watches => self.watch(state),
                // The status of classes is not modeled.
                Key::Class(_) => {}
                // The key of a Gateway's status also queues the key of the Gateway's work, once the work may be
                // created. In worlds without Gateway statuses, the key of the work is queued directly.
                Key::Fold(origin) if origin.as_gateway().is_some() && !self.world.gateway_statuses => {
                    push(state, Key::Works(origin));
                }
                Key::Fold(origin) if origin.as_gateway().is_none() && !self.world.annotates => {}
                Key::Fold(_) => wait(state, key, state.now.after(STATUS_WINDOW)),
                key => {
                    state.timers.remove(&key);
                    push(state, key);
                }
            }
        }
        // Removes the keys' own writes that the mirror now shows, so that the keys no longer wait for these writes.
        let all = std::mem::take(&mut state.own);
        for (key, own) in &all {
            let mut own = own.clone();
            if !state.jobs.contains_key(key) {
                own = self.controller.decide(&state.mirror_state, key, &own, &all, state.now).own.clone();
                own.clear_in_flight();
            }
            note(state, key.clone(), own);
        }
    }

    fn watch(&mut self, state: &mut State) {
        let wanted = self.controller.wanted(&state.mirror_state);
        let stale =
            |source: &&Source| needed().all(|needed| needed != **source) && !wanted.contains_key(source);
        let stale: Vec<Source> = state.feeds.keys().filter(stale).cloned().collect();
        for source in stale {
            state.feeds.remove(&source);
            self.report_event(state, &MirrorEvent::SourceRemoved(source));
        }
        for (source, gvr) in wanted.iter() {
            if !state.feeds.contains_key(source) {
                state.feeds.insert(source.clone(), Feed::default());
                if let Some(kind) = self.world.kinds.get(&*gvr.kind.resource)
                    && role_of(source).is_some()
                {
                    self.report_event(state, &MirrorEvent::Resolved(gvr.clone(), kind));
                }
            }
        }
    }

    fn decide(&mut self, state: &mut State, key: &Key) {
        state.queue.remove(key);
        let own = state.own.remove(key).unwrap_or_default();
        let decided = self.controller.decide(&state.mirror_state, key, &own, &state.own, state.now);
        note(state, key.clone(), decided.own.clone());
        if decided.waits {
            wait(state, key.clone(), state.now.after(STATUS_WINDOW));
        }
        if let Some(recheck) = decided.recheck {
            wait(state, key.clone(), recheck);
        }
        if let (Key::Fold(origin), true) = (key, decided.replan_works) {
            push(state, Key::Works(origin.clone()));
        }
        if decided.writes.is_empty() && decided.deletes.is_empty() {
            return;
        }
        if let Key::Fold(origin) = key {
            state.tally.annotated.insert(origin.clone(), state.now);
        }
        let (in_flight, unconfirmed_deletes) = (decided.writes.clone(), decided.deletes.clone());
        let job = Job { in_flight, unconfirmed_deletes, reads: decided.reads.clone(), ..Job::default() };
        state.jobs.insert(key.clone(), Arc::new(job));
    }

    fn send(&mut self, state: &mut State, key: &Key, index: usize, outcome: RequestOutcome) {
        let sending = job(state, key).in_flight.remove(index);
        if outcome != RequestOutcome::Done {
            state.remaining.faults -= 1;
        }
        if let (RequestPurpose::Work(_), Key::Works(origin)) = (&sending.purpose, key) {
            *state.tally.writes.entry(origin.clone()).or_default() += 1;
        }
        if matches!(outcome, RequestOutcome::Lost | RequestOutcome::Late) {
            job(state, key).failed = true;
            if outcome == RequestOutcome::Late {
                state.late.push(sending);
            }
            return;
        }
        let hub = Arc::make_mut(&mut state.hub);
        if outcome == RequestOutcome::Twice {
            let _ = hub.serve(&mut self.contents, &sending.request, sending.id);
        }
        let mut answer = hub.serve(&mut self.contents, &sending.request, sending.id);
        if outcome == RequestOutcome::ResponseLost {
            answer = Err(0);
        }
        let job = Arc::make_mut(state.jobs.entry(key.clone()).or_default());
        match (&sending.purpose, answer) {
            (RequestPurpose::Annotations, Ok(metadata)) => job.annotated = Some(metadata.version()),
            (RequestPurpose::Annotations, Err(_)) => job.failed = true,
            (RequestPurpose::Work(action), Ok(metadata)) => {
                job.written.push((name(action), works::written(action, &metadata)));
            }
            (RequestPurpose::Work(action), Err(code)) => match works::classify_rejection(action, code) {
                RejectedWrite::AlreadyDone => {}
                RejectedWrite::Failed => job.failed = true,
                RejectedWrite::Exists(work) => {
                    let existing = hub.work_metadata(action.cluster(), &work.name);
                    match existing.map(|existing| works::classify_existing(action.cluster(), work, &existing))
                    {
                        Some(ExistingWork::Unlabelled(request)) => {
                            let request = request.unwrap();
                            match hub.serve(&mut self.contents, &request, id_of(&request)) {
                                Ok(metadata) => {
                                    job.written
                                        .push((name(action), UndeliveredWrite::At(metadata.version())));
                                }
                                Err(_) => job.failed = true,
                            }
                        }
                        _ => job.failed = true,
                    }
                }
            },
        }
    }

    /// Ends a completed job. A failed key is queued again; backoffs are not modeled.
    fn finish(&mut self, state: &mut State, key: &Key) {
        let ended = state
            .jobs
            .get(key)
            .is_some_and(|job| job.in_flight.is_empty() && job.unconfirmed_deletes.is_empty());
        let Some(job) = ended.then(|| state.jobs.remove(key)).flatten() else { return };
        let mut own = state.own.remove(key).unwrap_or_default();
        own.clear_in_flight();
        for (work, written) in &job.written {
            own.wrote(work.clone(), written.clone());
        }
        if let Some(version) = job.annotated {
            own.wrote_object(version);
        }
        note(state, key.clone(), own);
        if job.failed || job.again {
            push(state, key.clone());
        }
        self.add(state, Keys::new());
    }
}

fn name(action: &WorkAction) -> WorkKey {
    (action.name().clone(), action.cluster().clone())
}

fn job<'s>(state: &'s mut State, key: &Key) -> &'s mut Job {
    Arc::make_mut(state.jobs.entry(key.clone()).or_default())
}

fn note(state: &mut State, key: Key, own: OwnWrites) {
    if !own.is_met() {
        state.own.insert(key, own);
    }
}

fn push(state: &mut State, key: Key) {
    match state.jobs.get_mut(&key) {
        Some(job) => Arc::make_mut(job).again = true,
        None => drop(state.queue.insert(key)),
    }
}

/// Schedules a key for `due` or an earlier timer.
fn wait(state: &mut State, key: Key, due: Moment) {
    if !state.queue.contains(&key) {
        let earliest = state.timers.get(&key).map_or(due, |found| due.min(*found));
        state.timers.insert(key, earliest);
    }
}
