//! The rules: each is a function that checks one step between two states.

use std::collections::{BTreeMap, BTreeSet};

use policy_sync_api::annotations::{POLICY_ANNOTATIONS, WORK_FOR};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_mirror::Source;
use policy_sync_sync::diff::WorkAction;
use policy_sync_sync::kinds::{GATEWAYS, POLICIES, RESOURCES, WORKS, role_of};
use policy_sync_sync::rows::gateway_fields::GatewayFields;
use policy_sync_sync::{Key, PLACEMENT_SETTLE_TIME};
use policy_sync_testenv::hostile::ROGUE;
use serde_json::Value;

use crate::controller::PendingRequest;
use crate::facts::{
    THEIRS, incomplete, is_applied, is_paused, may_be_placed, origin, rules_apply, targeted, wait, work_of,
    works,
};
use crate::hub::{Objects, selected};
use crate::state::{ListState, State, confirms};
use crate::step::{START, STATUS_WINDOW, Step};

/// A step with the states before and after it.
pub(crate) struct StateTransition<'a> {
    pub(crate) before: &'a State,
    pub(crate) step: &'a Step,
    pub(crate) after: &'a State,
    /// Whether no request and no watch has failed so far.
    pub(crate) faultless: bool,
    /// Whether only users have steps left after this step.
    pub(crate) settled: bool,
}

/// Checks a step; the error describes the violation.
pub(crate) type Rule = fn(&StateTransition<'_>) -> Result<(), String>;

/// The rules of every world.
pub(crate) const RULES: [Rule; 12] = [
    no_create_on_wrong_cluster,
    no_write_of_a_paused_object,
    no_work_left_on_wrong_cluster,
    no_delete_against_mirror,
    no_delete_of_a_wanted_work,
    foreign_objects_are_unchanged,
    request_targets_intended_object,
    settled_state_matches_hub,
    one_annotation_write_per_window,
    no_unchanged_annotations_are_written,
    no_gateway_before_its_policies,
    no_policy_leaves_before_its_gateway,
];

fn origin_of(key: &Key) -> Option<&Origin> {
    match key {
        Key::Works(origin) => Some(origin),
        _ => None,
    }
}

/// The actions of `in_flight` for `origin` on clusters where the rules apply.
fn judged<'s>(origin: &'s Origin, in_flight: &'s [PendingRequest]) -> impl Iterator<Item = &'s WorkAction> {
    let actions = in_flight.iter().filter_map(PendingRequest::work);
    actions.filter(|action| rules_apply(origin, action.cluster()))
}

/// A work is created only where the reported objects place its origin. A policy may also be created where the
/// work of a Gateway exists: the cluster may only seem to have left the Placement.
fn no_create_on_wrong_cluster(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Decide(key) = happened.step else { return Ok(()) };
    let (Some(origin), Some(job)) = (origin_of(key), happened.after.jobs.get(key)) else { return Ok(()) };
    let shown = &happened.before.mirror_state.shown;
    let (wanted, works) = (happened.before.mirror_state.wanted(), works(shown));
    for action in judged(origin, &job.in_flight) {
        let WorkAction::Create { cluster, .. } = action else { continue };
        let gateway_is_there = |(found, at): &(Option<Origin>, ClusterName)| {
            at == cluster && found.as_ref().and_then(Origin::as_gateway).is_some()
        };
        let leaving = origin.as_gateway().is_none() && works.iter().any(gateway_is_there);
        if !leaving && !wanted.contains(&(origin.clone(), cluster.clone())) {
            return Err(format!("{origin} is created on {cluster}, but the mirror does not place it there"));
        }
    }
    Ok(())
}

/// While a pause is reported, the works of the paused object are neither created nor updated.
fn no_write_of_a_paused_object(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Decide(key) = happened.step else { return Ok(()) };
    let (Some(origin), Some(job)) = (origin_of(key), happened.after.jobs.get(key)) else { return Ok(()) };
    for action in judged(origin, &job.in_flight) {
        let is_write = matches!(action, WorkAction::Create { .. } | WorkAction::Update { .. });
        if is_write && is_paused(&happened.before.mirror_state.shown, origin, action.cluster()) {
            return Err(format!(
                "{} of {origin} on {}, although it is paused",
                action.verb(),
                action.cluster()
            ));
        }
    }
    Ok(())
}

/// A work on a wrong cluster remains only while an event about it is outstanding, or the controller is about to handle
/// it. A policy's work may also wait until its Gateway's work is deleted.
fn no_work_left_on_wrong_cluster(happened: &StateTransition<'_>) -> Result<(), String> {
    let state = happened.after;
    let is_delivered =
        |feed: &crate::state::Feed| feed.events.is_empty() && matches!(feed.listing, ListState::Done);
    if !state.feeds.values().all(is_delivered) || incomplete(&state.hub.objects) {
        return Ok(());
    }
    let wanted = state.hub.wanted();
    let mut places = BTreeSet::new();
    for (origin, cluster) in works(&state.hub.objects) {
        let Some(origin) = origin.filter(|origin| rules_apply(origin, &cluster)) else { continue };
        let key = Key::Works(origin.clone());
        let seen_to =
            state.queue.contains(&key) || state.timers.contains_key(&key) || state.jobs.contains_key(&key);
        let mut gateways = targeted(&state.hub.objects, &origin, &cluster).into_iter();
        let follows = gateways.any(|gateway| work_of(&state.hub.objects, &gateway, &cluster).is_some());
        let place = (origin, cluster);
        if !seen_to && !follows && !wanted.contains(&place) {
            return Err(format!(
                "{} stays on {}, and no pending event, key or timer removes it",
                place.0, place.1
            ));
        }
        if !places.insert(place.clone()) {
            return Err(format!("{} has two works on {}", place.0, place.1));
        }
    }
    Ok(())
}

/// A delete of a work is decided only if the reported objects do not place the work's origin on the cluster. All needed
/// kinds must have been listed since the start. If a Placement causes the delete, [`PLACEMENT_SETTLE_TIME`] must have
/// passed since the last event of a Placement or its decisions.
fn no_delete_against_mirror(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Decide(key) = happened.step else { return Ok(()) };
    let (Some(origin), Some(job)) = (origin_of(key), happened.after.jobs.get(key)) else { return Ok(()) };
    let (mirror_state, now) = (&happened.before.mirror_state, happened.before.now);
    for action in judged(origin, &job.unconfirmed_deletes) {
        let cluster = action.cluster();
        if mirror_state.wanted().contains(&(origin.clone(), cluster.clone())) {
            return Err(format!(
                "a delete of {origin} on {cluster} is planned, but the mirror places it there"
            ));
        }
        let gateway_stays =
            mirror_state.wanted().iter().any(|(found, at)| found.as_gateway().is_some() && at == cluster);
        if origin.as_gateway().is_none() && gateway_stays && !mirror_state.has_listed(origin.kind()) {
            return Err(format!("a delete of {origin} on {cluster} is planned before its kind was listed"));
        }
        let settled = happened.before.tally.placed.after(PLACEMENT_SETTLE_TIME) <= now
            && !incomplete(&mirror_state.shown);
        if origin.as_gateway().is_some() && may_be_placed(&mirror_state.shown, origin.object()) && !settled {
            return Err(format!(
                "a delete of {origin} on {cluster} is planned before its Placement has settled"
            ));
        }
    }
    Ok(())
}

/// When the hub confirms the causes of deletes, the objects on the hub do not place the origins of the deleted works on
/// their clusters.
fn no_delete_of_a_wanted_work(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Check(key) = happened.step else { return Ok(()) };
    let (Some(origin), Some(job)) = (origin_of(key), happened.before.jobs.get(key)) else { return Ok(()) };
    let hub = &happened.before.hub;
    if !confirms(hub, &job.reads) {
        return Ok(());
    }
    let wanted = hub.wanted();
    for action in judged(origin, &job.unconfirmed_deletes) {
        if wanted.contains(&(origin.clone(), action.cluster().clone())) {
            return Err(format!("{origin} is deleted on {}, but the hub places it there", action.cluster()));
        }
    }
    Ok(())
}

/// Requests change only the controller's works, its annotations of policies and its fields of Gateways.
fn foreign_objects_are_unchanged(happened: &StateTransition<'_>) -> Result<(), String> {
    if !matches!(happened.step, Step::Send(..) | Step::Late(_)) {
        return Ok(());
    }
    let (before, after) = (&happened.before.hub.objects, &happened.after.hub.objects);
    let changed = |(key, entry): &(&(Source, _), &crate::hub::Entry)| {
        after.get(*key).is_none_or(|now| now.content.id != entry.content.id)
    };
    for ((source, key), entry) in before.iter().filter(changed) {
        let was = &entry.content.json;
        let now = after.get(&(source.clone(), key.clone())).map(|entry| &entry.content.json);
        let ours = if source.is(&WORKS) && *key.namespace == *ROGUE {
            // The hostile spoke may have removed the metadata that marks the work.
            was["metadata"]["labels"][THEIRS].is_null()
        } else if source.is(&WORKS) {
            origin(was).is_some() || was["metadata"]["labels"][WORK_FOR] == "access"
        } else {
            (role_of(source).is_some() || source.is(&GATEWAYS))
                && now.is_some_and(|now| without_ours(was) == without_ours(now))
        };
        if !ours {
            return Err(format!("{source:?} {key} was changed, but does not belong to the controller"));
        }
    }
    Ok(())
}

fn without_ours(object: &Value) -> Value {
    let mut object = object.clone();
    let is_gateway = object["kind"] == "Gateway";
    for field in ["annotations", "labels"] {
        if let Some(strings) = object["metadata"][field].as_object_mut() {
            strings.retain(|key, _| match is_gateway {
                true => !GatewayFields::is_ours(key),
                false => !POLICY_ANNOTATIONS.contains(&key.as_str()),
            });
        }
        if object["metadata"][field].as_object().is_none_or(serde_json::Map::is_empty) {
            object["metadata"][field] = Value::Null;
        }
    }
    if is_gateway {
        object["metadata"]["managedFields"] = Value::Null;
        object["status"] = Value::Null;
    }
    object
}

/// A request changes only the work that it was decided for. It changes neither a new work with this name, nor a
/// work that has changed since.
fn request_targets_intended_object(happened: &StateTransition<'_>) -> Result<(), String> {
    let before = happened.before;
    let sending = match happened.step {
        Step::Send(key, index, _) => &before.jobs[key].in_flight[*index],
        Step::Late(index) => &before.late[*index],
        _ => return Ok(()),
    };
    let Some(action) = sending.work() else { return Ok(()) };
    let place = (WORKS.all(), ObjectKey::new(&action.cluster().0, &action.name().0));
    let (Some(found), after) = (before.hub.objects.get(&place), happened.after.hub.objects.get(&place))
    else {
        return Ok(());
    };
    if after.is_some_and(|after| after.content.id == found.content.id) {
        return Ok(());
    }
    let metadata = &found.content.metadata;
    let meant = match action {
        WorkAction::Create { cluster, .. } => origin(&found.content.json).is_some() || *cluster.0 == *ROGUE,
        WorkAction::Update { uid, generation, .. } => {
            metadata.uid == **uid && metadata.generation == *generation
        }
        WorkAction::Mark { uid, .. } | WorkAction::Delete { uid, .. } => metadata.uid == **uid,
    };
    if meant {
        Ok(())
    } else {
        Err(format!("{} of {}: the object differs from the observed one", action.verb(), place.1))
    }
}

/// In a settled state, all Gateways and policies have works on exactly the correct clusters, except that works of paused
/// objects may be missing. Each cluster with a work
/// has its access work, and no other works of the controller exist.
/// [`Model::starts_without_a_write`](crate::explore::Model::starts_without_a_write) checks the contents of works.
fn settled_state_matches_hub(happened: &StateTransition<'_>) -> Result<(), String> {
    let objects = &happened.after.hub.objects;
    if !happened.settled || incomplete(objects) {
        return Ok(());
    }
    let may_be_missing = |origin: &Origin, at: &ClusterName| {
        is_paused(objects, origin, at) && work_of(objects, origin, at).is_none()
    };
    let wanted = happened.after.hub.wanted();
    let wanted = wanted.iter().filter(|(origin, at)| !may_be_missing(origin, at));
    let wanted: BTreeSet<String> = wanted.map(|(origin, at)| format!("{at} {origin}")).collect();
    let clusters: BTreeSet<&str> = wanted.iter().filter_map(|place| place.split(' ').next()).collect();
    let mut should: Vec<String> = clusters.iter().map(|cluster| format!("{cluster} access")).collect();
    should.extend(wanted.iter().cloned());
    should.sort();
    let found = ours(objects);
    if found == should {
        Ok(())
    } else {
        Err(format!("settled with the works {found:?}, expected {should:?}"))
    }
}

/// All works of the controller, including terminating works. Access works of clusters that have only works of attackers
/// are left out.
fn ours(objects: &Objects) -> Vec<String> {
    let works = objects
        .iter()
        .filter(|((source, key), _)| *source == WORKS.all() && *key.namespace != *ROGUE)
        .filter(|((source, _), entry)| selected(source, &entry.content.json));
    let (mut names, mut others) = (Vec::new(), BTreeSet::new());
    for ((_, key), entry) in works {
        let (work, cluster) = (&entry.content.json, ClusterName(key.namespace.clone()));
        match origin(work) {
            Some(origin) if rules_apply(&origin, &cluster) => names.push(format!("{cluster} {origin}")),
            Some(_) => drop(others.insert(cluster)),
            None if work["metadata"]["labels"][WORK_FOR] == "access" => {
                names.push(format!("{cluster} access"))
            }
            None => {}
        }
    }
    let is_theirs = |cluster: &ClusterName| {
        names.iter().filter(|name| name.starts_with(&format!("{cluster} "))).count() == 1
    };
    others.retain(is_theirs);
    names.retain(|name| !others.iter().any(|cluster| *name == format!("{cluster} access")));
    names.sort();
    names
}

/// Without faults, a policy or Gateway is written at most once per status window.
fn one_annotation_write_per_window(happened: &StateTransition<'_>) -> Result<(), String> {
    let (Step::Decide(Key::Fold(origin)), before) = (happened.step, happened.before) else { return Ok(()) };
    let faultless = happened.faultless;
    let writes = happened.after.jobs.contains_key(&Key::Fold(origin.clone()));
    let last = before.tally.annotated.get(origin);
    match last.filter(|last| faultless && writes && last.after(STATUS_WINDOW) > before.now) {
        Some(_) => Err(format!("{origin} is annotated twice within the status window")),
        None => Ok(()),
    }
}

/// Without faults, no write of annotations or status leaves its object unchanged.
fn no_unchanged_annotations_are_written(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Send(Key::Fold(origin), index, _) = happened.step else { return Ok(()) };
    let before = happened.before;
    let source = match origin.as_gateway().is_some() {
        true => GATEWAYS.all(),
        false => match &*origin.kind().group {
            "apps" => RESOURCES.resource(origin.kind().clone()),
            _ => POLICIES.resource(origin.kind().clone()),
        },
    };
    let place = (source, origin.object().clone());
    let Some(found) = before.hub.objects.get(&place) else { return Ok(()) };
    let request = &before.jobs[&Key::Fold(origin.clone())].in_flight[*index].request;
    let sent: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let same = sent["metadata"]["uid"] == found.content.metadata.uid
        && happened.after.hub.objects[&place].content.id == found.content.id;
    if happened.faultless && same { Err(format!("{origin} is annotated without a change")) } else { Ok(()) }
}

/// A Gateway is created on a cluster only once all its policies are applied that belong there according to the reported
/// objects. With `serve`, the Gateway may be created after the wait. Then each policy needs only a work, or a kind that
/// is not listed yet.
fn no_gateway_before_its_policies(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Decide(key) = happened.step else { return Ok(()) };
    let (Some(gateway), Some(job)) = (origin_of(key), happened.after.jobs.get(key)) else { return Ok(()) };
    let mirror_state = &happened.before.mirror_state;
    let shown = &mirror_state.shown;
    if gateway.as_gateway().is_none() {
        return Ok(());
    }
    let wait = wait(shown);
    let has_waited = !wait.holds && happened.before.now >= START.after(wait.time);
    for action in judged(gateway, &job.in_flight) {
        let WorkAction::Create { cluster, .. } = action else { continue };
        for (policy, _) in mirror_state.wanted().iter().filter(|(_, at)| at == cluster) {
            let waits = targeted(shown, policy, cluster).contains(gateway);
            let work = work_of(shown, policy, cluster);
            let was_waited_for = has_waited && (work.is_some() || !mirror_state.has_listed(policy.kind()));
            if waits && !was_waited_for && !work.is_some_and(is_applied) {
                return Err(format!("{gateway} is created on {cluster} before {policy} is applied there"));
            }
        }
    }
    Ok(())
}

/// The delete of a policy on a cluster is decided only once the policy's Gateway is gone from the cluster, or has been
/// terminating for the duration of the wait. A policy that leaves a cluster on which its Gateway stays is exempt.
fn no_policy_leaves_before_its_gateway(happened: &StateTransition<'_>) -> Result<(), String> {
    let Step::Decide(key) = happened.step else { return Ok(()) };
    let (Some(policy), Some(job)) = (origin_of(key), happened.after.jobs.get(key)) else { return Ok(()) };
    let shown = &happened.before.mirror_state.shown;
    for action in judged(policy, &job.unconfirmed_deletes) {
        let cluster = action.cluster();
        for gateway in targeted(shown, policy, cluster) {
            if work_of(shown, &gateway, cluster).is_some_and(|work| serves(work, happened.before.now, shown))
            {
                return Err(format!("a delete of {policy} on {cluster} is planned before that of {gateway}"));
            }
        }
    }
    Ok(())
}

/// Whether the policies of the Gateway in `work` still have to stay.
fn serves(work: &Value, now: Moment, objects: &Objects) -> bool {
    work["metadata"]["deletionTimestamp"].is_null() || now < START.after(wait(objects).time)
}

/// For worlds in which no policy is changed or deleted: no state has a Gateway on a cluster without all of
/// its policies, each applied at least once.
pub(crate) fn no_unprotected_moment(happened: &StateTransition<'_>) -> Result<(), String> {
    let objects = &happened.after.hub.objects;
    for ((_, key), entry) in objects.iter().filter(|((source, _), _)| *source == WORKS.all()) {
        let (work, cluster) = (&entry.content.json, ClusterName(key.namespace.clone()));
        let gateway = origin(work).filter(|origin| origin.as_gateway().is_some());
        let Some(gateway) = gateway.filter(|_| serves(work, happened.after.now, objects)) else { continue };
        for ((source, object), _) in objects.iter() {
            let Some(kind) = POLICIES.resource_of(source) else { continue };
            let policy = Origin::new(kind.clone(), object.clone());
            let protects = |work: &Value| work["status"]["conditions"][0]["status"] == "True";
            let is_protected = work_of(objects, &policy, &cluster).is_some_and(protects);
            if targeted(objects, &policy, &cluster).contains(&gateway) && !is_protected {
                return Err(format!("{gateway} is on {cluster} without {policy}"));
            }
        }
    }
    Ok(())
}

/// For worlds without faults in which users change each policy once. Each change causes one write for each
/// cluster of the policy, and no write of a Gateway.
pub(crate) fn one_write_for_each_cluster(happened: &StateTransition<'_>) -> Result<(), String> {
    let state = happened.after;
    let mut clusters: BTreeMap<&Origin, usize> = BTreeMap::new();
    for (origin, _) in state.hub.wanted() {
        *clusters.entry(origin).or_default() += 1;
    }
    let changes: usize = state.remaining.done.iter().sum();
    for (origin, writes) in &state.tally.writes {
        let may = if origin.as_gateway().is_some() {
            0
        } else {
            changes * clusters.get(origin).copied().unwrap_or_default()
        };
        if *writes > may {
            return Err(format!("{origin} was written {writes} times for {changes} changes"));
        }
    }
    Ok(())
}
