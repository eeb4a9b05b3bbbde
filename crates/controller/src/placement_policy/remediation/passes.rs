//! Decides which kinds are kept in memory, and when the next pass over a kind begins. A *trace* is a value on an object
//! that a former placement policy set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::placement_policy::placed_kinds;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::GroupResource;
use policy_sync_sync::desired::covered::ControllerScope;

/// The time after a change of placement policies or their data for which the API server may still store objects that
/// were placed before the change. It covers the API server's timeouts for reviews and storage, and the lag between
/// replicas.
const SETTLE_TIME: Duration = Duration::from_secs(75);

/// The kinds kept in memory, and the results of checks for traces of former placement policies.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    kept: BTreeSet<GroupResource>,
    /// Kinds without traces of former placement policies.
    clean: BTreeSet<GroupResource>,
    /// The kinds that placement policies apply to.
    covered: BTreeSet<GroupResource>,
    /// The kinds with traces of former placement policies.
    traces: BTreeSet<GroupResource>,
    /// The GatewayClasses to whose Gateways placement policies apply.
    classes: BTreeSet<Arc<str>>,
    /// The time of the last known change of placement policies or their data.
    last_change: Moment,
    /// When the next pass over a kind may begin.
    next_pass_at: BTreeMap<GroupResource, Moment>,
}

impl Passes {
    /// Creates the state in which no kind is kept in memory yet. The time of the last change is assumed to be `now`.
    #[must_use]
    pub(super) fn new(now: Moment) -> Self {
        let (kept, clean, covered, traces, classes, next_pass_at) = Default::default();
        Self { kept, clean, covered, traces, classes, last_change: now, next_pass_at }
    }

    /// The kinds that are kept in memory.
    #[must_use]
    pub(super) fn kept(&self) -> &BTreeSet<GroupResource> {
        &self.kept
    }

    /// Updates the kinds that are kept in memory. With placement policies, all covered kinds are kept. Without
    /// placement policies, a kind is kept while it has traces. A kind that was kept also stays until a check has found
    /// no traces. Returns the kinds that require a pass: newly kept kinds, and Gateways if the covered classes changed.
    #[must_use]
    pub(super) fn keep(&mut self, covered: &ControllerScope, is_placed: bool) -> BTreeSet<GroupResource> {
        self.covered = placed_kinds::kinds(covered, &self.covered);
        if is_placed {
            self.clean.clear();
            self.traces.clear();
        }
        self.clean.retain(|kind| self.covered.contains(kind));
        self.traces.retain(|kind| self.covered.contains(kind));
        let mut kinds = self.covered.clone();
        kinds.retain(|kind| {
            is_placed
                || self.traces.contains(kind)
                || (self.kept.contains(kind) && !self.clean.contains(kind))
        });
        if !kinds.is_empty() {
            kinds.insert(GroupResource::namespaces());
        }
        self.next_pass_at.retain(|kind, _| kinds.contains(kind));
        let before = std::mem::replace(&mut self.kept, kinds);
        let mut new: BTreeSet<GroupResource> = self.kept.difference(&before).cloned().collect();
        let gateways = GroupResource::gateways();
        if std::mem::replace(&mut self.classes, covered.classes.clone()) != covered.classes
            && self.kept.contains(&gateways)
        {
            new.insert(gateways);
        }
        new.remove(&GroupResource::namespaces());
        new
    }

    /// The covered kinds for which no check has ruled out traces of former placement policies.
    #[must_use]
    pub(super) fn kinds_that_may_have_traces(&self) -> BTreeSet<GroupResource> {
        self.covered.difference(&self.clean).cloned().collect()
    }

    /// Whether `kind` may have traces of former placement policies.
    #[must_use]
    pub(super) fn may_have_traces(&self, kind: &GroupResource) -> bool {
        self.covered.contains(kind) && !self.clean.contains(kind)
    }

    /// The time until the next pass over `kind` may begin.
    #[must_use]
    pub(super) fn time_to_next_pass(&self, kind: &GroupResource, now: Moment) -> Option<Duration> {
        self.next_pass_at.get(kind).filter(|until| **until > now).map(|until| until.since(now))
    }

    /// Records that a pass over `kind` took `took` and ended at `now`. The next pass starts at the earliest after an
    /// equally long pause.
    pub(super) fn ended(&mut self, kind: &GroupResource, took: Duration, now: Moment) {
        if self.kept.contains(kind) {
            self.next_pass_at.insert(kind.clone(), now.after(took));
        }
    }

    /// Records a change of placement policies or their data. Objects of each kind may have traces of the
    /// earlier state.
    pub(super) fn inputs_changed(&mut self, now: Moment) {
        self.clean.clear();
        self.last_change = now;
    }

    /// The remaining time in which the API server may still store objects that were placed before the last change.
    #[must_use]
    pub(super) fn settle_time(&self, now: Moment) -> Option<Duration> {
        let until = self.last_change.after(SETTLE_TIME);
        (until > now).then(|| until.since(now))
    }

    /// Records that objects of `kind` have no traces.
    pub(super) fn record_no_traces(&mut self, kind: &GroupResource) {
        self.traces.remove(kind);
        if self.covered.contains(kind) {
            self.clean.insert(kind.clone());
        }
    }

    /// Records that objects of `kind` have traces.
    pub(super) fn record_traces(&mut self, kind: &GroupResource) {
        if self.covered.contains(kind) {
            self.traces.insert(kind.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(plural: &str) -> GroupResource {
        GroupResource::new("apps", plural)
    }

    fn covering(plurals: &[&str]) -> ControllerScope {
        let kinds = plurals.iter().map(|plural| kind(plural)).collect();
        ControllerScope { kinds, is_whole: true, ..ControllerScope::default() }
    }

    fn kept(passes: &Passes) -> Vec<String> {
        passes.kept().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn covered_kinds_are_kept_until_no_traces_of_policies_remain() {
        let (now, covered) = (Moment(1_000), covering(&["a", "b"]));
        let mut passes = Passes::new(now);
        let both = ["namespaces", "a.apps", "b.apps"];
        // An earlier process may have left traces, and an object that the process placed last may not be stored yet.
        assert!(passes.keep(&covered, false).is_empty() && passes.kept().is_empty());
        assert_eq!(
            (passes.settle_time(now), passes.settle_time(now.after(SETTLE_TIME))),
            (Some(SETTLE_TIME), None)
        );
        assert_eq!(passes.kinds_that_may_have_traces(), covered.kinds);
        passes.record_no_traces(&kind("a"));
        passes.record_traces(&kind("b"));
        assert_eq!(passes.keep(&covered, false), BTreeSet::from([kind("b")]));
        assert_eq!(kept(&passes), ["namespaces", "b.apps"]);
        passes.record_no_traces(&kind("b"));
        assert!(passes.keep(&covered, false).is_empty() && passes.kept().is_empty());
        assert!(passes.kinds_that_may_have_traces().is_empty());
        // A placement policy is created and deleted. Kept kinds stay until a check has found no traces.
        passes.inputs_changed(now);
        assert_eq!(passes.keep(&covered, true), covered.kinds);
        passes.inputs_changed(now);
        assert!(passes.keep(&covered, false).is_empty());
        assert_eq!(kept(&passes), both);
        for plural in ["a", "b"] {
            passes.record_no_traces(&kind(plural));
        }
        let _ = passes.keep(&covered, false);
        assert!(passes.kept().is_empty());
        // A placement policy may leave traces even if it existed only for a moment.
        passes.inputs_changed(now);
        let _ = passes.keep(&covered, false);
        assert!(passes.may_have_traces(&kind("a")) && passes.kept().is_empty());
        let more = covering(&["a", "b", "c"]);
        assert_eq!(passes.keep(&more, true), more.kinds);
        assert!(passes.keep(&covering(&[]), true).is_empty() && passes.kept().is_empty());
        assert!(!passes.may_have_traces(&kind("a")));
    }

    #[test]
    fn gateways_get_a_pass_when_covered_classes_change() {
        let of = |classes: &[&str]| ControllerScope {
            classes: classes.iter().map(|class| Arc::from(*class)).collect(),
            is_whole: true,
            ..ControllerScope::default()
        };
        let (mut passes, gateways) = (Passes::new(Moment(0)), BTreeSet::from([GroupResource::gateways()]));
        assert_eq!(passes.keep(&of(&["a"]), true), gateways);
        assert!(passes.keep(&of(&["a"]), true).is_empty());
        assert_eq!(passes.keep(&of(&["a", "b"]), true), gateways);
        assert_eq!(passes.keep(&of(&["b"]), true), gateways, "one is ours no more");
    }

    #[test]
    fn next_pass_waits_as_long_as_the_last_one_took() {
        let now = Moment(1_000);
        let mut passes = Passes::new(now);
        let _ = passes.keep(&covering(&["a"]), true);
        assert_eq!(passes.time_to_next_pass(&kind("a"), now), None);
        passes.ended(&kind("a"), Duration::from_secs(2), now);
        assert_eq!(
            passes.time_to_next_pass(&kind("a"), now.after(Duration::from_secs(1))),
            Some(Duration::from_secs(1))
        );
        assert_eq!(passes.time_to_next_pass(&kind("a"), now.after(Duration::from_secs(2))), None);
        passes.ended(&kind("gone"), Duration::from_secs(2), now);
        assert_eq!(
            passes.time_to_next_pass(&kind("gone"), now),
            None,
            "nothing is remembered of what is not kept"
        );
    }
}
