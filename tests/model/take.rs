//! The effect of a step on a state.

use std::sync::Arc;

use policy_sync_api::moment::Moment;
use policy_sync_controller::sync::write::works::{self, Found, Refused};
use policy_sync_controller::sync::write::{OwnWrites, Written};
use policy_sync_hub::reconcile::Expected;
use policy_sync_mirror::Source;
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::{DECISIONS, PLACEMENTS, needed, role_of};
use policy_sync_sync::{Key, Keys, WorkKey};

use crate::agent;
use crate::controller::{Heard, Told, What, id_of};
use crate::hub::Entry;
use crate::state::{Feed, Job, Listing, State, agrees};
use crate::step::{Fate, STATUS_WINDOW, Step, Sync};

impl Sync<'_> {
    pub(crate) fn happen(&mut self, state: &mut State, step: &Step) {
        match step {
            Step::User(actor) => {
                let change = &self.world.actors[*actor][state.left.done[*actor]];
                state.left.done[*actor] += 1;
                change.make(Arc::make_mut(&mut state.hub), &mut self.contents);
            }
            Step::Tell(source) => self.tell_next(state, source),
            Step::Page(source) => self.page(state, source),
            Step::Expire(source) => {
                state.left.faults -= 1;
                state.feeds.insert(source.clone(), Feed::default());
            }
            Step::Decide(key) => self.decide(state, key),
            Step::Send(key, index, fate) => {
                self.send(state, key, *index, *fate);
                self.finish(state, key);
            }
            Step::Late(index) => {
                let late = state.late.remove(*index);
                let _ = Arc::make_mut(&mut state.hub).serve(&mut self.contents, &late.request, late.id);
            }
            Step::Check(key) => {
                let agrees = agrees(&state.hub, &state.jobs[key].reads);
                let job = job(state, key);
                let held = std::mem::take(&mut job.held);
                if agrees {
                    job.sends.extend(held);
                } else {
                    job.failed = true;
                }
                self.finish(state, key);
            }
            Step::Agent(key) => agent::look(Arc::make_mut(&mut state.hub), &mut self.contents, key),
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
                state.left.crashes -= 1;
                self.boot(state);
            }
        }
        self.pass_on(state);
    }

    /// Starts the process. Nothing is decided before all needed kinds are listed, and a change between two of
    /// these lists is like an event after them, so they are listed in one step.
    pub(crate) fn boot(&mut self, state: &mut State) {
        state.mind = self.controller.newborn();
        state.feeds.clear();
        state.queue.clear();
        state.timers.clear();
        state.jobs.clear();
        state.own.clear();
        for source in needed() {
            self.tell(state, &Told::Begin(source.clone()));
            for (key, entry) in state.hub.listed(&source) {
                self.tell(state, &Told::Object(source.clone(), key, entry));
            }
            self.tell(state, &Told::End(source.clone(), state.hub.version(&source)));
            state.feeds.insert(source, Feed { listing: Listing::Done, ..Feed::default() });
        }
        Arc::make_mut(&mut state.hub).events.clear();
    }

    /// Delivers new events to the feeds of their sources.
    fn pass_on(&mut self, state: &mut State) {
        if state.hub.events.is_empty() {
            return;
        }
        for (source, event) in std::mem::take(&mut Arc::make_mut(&mut state.hub).events) {
            let feed = state.feeds.get_mut(&source);
            if let Some(feed) = feed.filter(|feed| !matches!(feed.listing, Listing::Wanted)) {
                feed.events.push_back(event);
            }
        }
    }

    fn tell(&mut self, state: &mut State, told: &Told) {
        if let Told::Object(source, key, entry) = told
            && (source.is(&PLACEMENTS) || source.is(&DECISIONS))
        {
            let known = state.mind.shown.get(&(source.clone(), key.clone()));
            if known.is_none_or(|known| known.version != entry.version) {
                state.tally.placed = state.now;
            }
        }
        let Heard { mind, keys, .. } = self.controller.tell(&state.mind, told, state.now);
        state.mind = mind;
        self.add(state, keys);
    }

    fn tell_next(&mut self, state: &mut State, source: &Source) {
        let Some(event) = state.feeds.get_mut(source).and_then(|feed| feed.events.pop_front()) else {
            return;
        };
        let told = match event.content {
            Some(content) => {
                Told::Object(source.clone(), event.key, Entry { content, version: event.version })
            }
            None => Told::Gone(source.clone(), event.key, event.version),
        };
        self.tell(state, &told);
    }

    /// The next page, with one object.
    fn page(&mut self, state: &mut State, source: &Source) {
        let Some(feed) = state.feeds.get_mut(source) else { return };
        let (mut pages, version) = match std::mem::take(&mut feed.listing) {
            Listing::Pages(pages, version) => (pages, version),
            _ => {
                feed.listing = Listing::Pages(Default::default(), 0);
                let pages = state.hub.listed(source).collect();
                self.tell(state, &Told::Begin(source.clone()));
                (pages, state.hub.version(source))
            }
        };
        if let Some((key, entry)) = pages.pop_front() {
            self.tell(state, &Told::Object(source.clone(), key, entry));
        }
        let listing = if pages.is_empty() {
            self.tell(state, &Told::End(source.clone(), version));
            Listing::Done
        } else {
            Listing::Pages(pages, version)
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
                // A waiting Gateway is decided again together with its status, which may be at any time.
                Key::Fold(origin) if origin.as_gateway().is_some() && !self.world.tells => {
                    push(state, Key::Works(origin));
                }
                Key::Fold(origin) if origin.as_gateway().is_none() && !self.world.folds => {}
                Key::Fold(_) => wait(state, key, state.now.after(STATUS_WINDOW)),
                key => {
                    state.timers.remove(&key);
                    push(state, key);
                }
            }
        }
        // Own writes that the mirror now shows are no longer awaited.
        let all = std::mem::take(&mut state.own);
        for (key, own) in &all {
            let mut own = own.clone();
            if !state.jobs.contains_key(key) {
                own = self.controller.decide(&state.mind, key, &own, &all, state.now).own.clone();
                own.sent();
            }
            note(state, key.clone(), own);
        }
    }

    fn watch(&mut self, state: &mut State) {
        let wanted = self.controller.wanted(&state.mind);
        let stale =
            |source: &&Source| needed().all(|needed| needed != **source) && !wanted.contains_key(source);
        let stale: Vec<Source> = state.feeds.keys().filter(stale).cloned().collect();
        for source in stale {
            state.feeds.remove(&source);
            self.tell(state, &Told::Forget(source));
        }
        for (source, gvr) in wanted.iter() {
            if !state.feeds.contains_key(source) {
                state.feeds.insert(source.clone(), Feed::default());
                if let Some(kind) = self.world.kinds.get(&*gvr.kind.resource)
                    && role_of(source).is_some()
                {
                    self.tell(state, &Told::Resolved(gvr.clone(), kind));
                }
            }
        }
    }

    fn decide(&mut self, state: &mut State, key: &Key) {
        state.queue.remove(key);
        let own = state.own.remove(key).unwrap_or_default();
        let decided = self.controller.decide(&state.mind, key, &own, &state.own, state.now);
        note(state, key.clone(), decided.own.clone());
        if decided.waits {
            wait(state, key.clone(), state.now.after(STATUS_WINDOW));
        }
        if let Some(recheck) = decided.recheck {
            wait(state, key.clone(), recheck);
        }
        if let (Key::Fold(origin), true) = (key, decided.comes) {
            push(state, Key::Works(origin.clone()));
        }
        if decided.writes.is_empty() && decided.deletes.is_empty() {
            return;
        }
        if let Key::Fold(origin) = key {
            state.tally.annotated.insert(origin.clone(), state.now);
        }
        let (sends, held) = (decided.writes.clone(), decided.deletes.clone());
        let job = Job { sends, held, reads: decided.reads.clone(), ..Job::default() };
        state.jobs.insert(key.clone(), Arc::new(job));
    }

    fn send(&mut self, state: &mut State, key: &Key, index: usize, fate: Fate) {
        let sending = job(state, key).sends.remove(index);
        if fate != Fate::Done {
            state.left.faults -= 1;
        }
        if let (What::Work(_), Key::Works(origin)) = (&sending.what, key) {
            *state.tally.writes.entry(origin.clone()).or_default() += 1;
        }
        if matches!(fate, Fate::Lost | Fate::Late) {
            job(state, key).failed = true;
            if fate == Fate::Late {
                state.late.push(sending);
            }
            return;
        }
        let hub = Arc::make_mut(&mut state.hub);
        if fate == Fate::Twice {
            let _ = hub.serve(&mut self.contents, &sending.request, sending.id);
        }
        let mut answer = hub.serve(&mut self.contents, &sending.request, sending.id);
        if fate == Fate::AnswerLost {
            answer = Err(0);
        }
        let job = Arc::make_mut(state.jobs.entry(key.clone()).or_default());
        match (&sending.what, answer) {
            (What::Annotations, Ok(metadata)) => job.annotated = Some(metadata.version()),
            (What::Annotations, Err(_)) => job.failed = true,
            (What::Work(action), Ok(metadata)) => {
                job.written.push((name(action), works::written(action, &metadata)));
            }
            (What::Work(action), Err(code)) => match works::refused(action, code) {
                Refused::Done => {}
                Refused::Failed => job.failed = true,
                Refused::Exists(work) => {
                    let there = hub.look(action.cluster(), &work.name);
                    match there.map(|there| works::found(action.cluster(), work, &there)) {
                        Some(Found::Unlabelled(request)) => {
                            let request = request.unwrap();
                            match hub.serve(&mut self.contents, &request, id_of(&request)) {
                                Ok(metadata) => {
                                    job.written.push((name(action), Written::At(metadata.version())));
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
        let ended = state.jobs.get(key).is_some_and(|job| job.sends.is_empty() && job.held.is_empty());
        let Some(job) = ended.then(|| state.jobs.remove(key)).flatten() else { return };
        let mut own = state.own.remove(key).unwrap_or_default();
        own.sent();
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
