//! Tests which changes in the sync's watches require a new graph.

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_mirror::SourceEvent;
use policy_sync_sync::rows::kind::{KindInfo, Resolution};
use policy_sync_sync::topology::affects_topology;
use policy_sync_sync::{Mirror, found};

#[test]
fn kind_that_becomes_direct_affects_the_topology() {
    let mirror = Mirror::new(ControllerName::new("example.com/c"));
    let gvr = GroupVersionResource::new("example.com", "v1", "timeoutpolicies");
    let bears = |change: SourceEvent| {
        let changes = mirror.change(change, Moment::default());
        changes.iter().any(|changed| affects_topology(changes.view(), changed))
    };
    let resolved = |direct: bool| {
        let info = KindInfo { direct, ..KindInfo::named("TimeoutPolicy") };
        found::resolved(&gvr, Resolution::Resolved(info))
    };
    assert!(bears(resolved(false)));
    assert!(!bears(resolved(false)), "the kind is still not direct");
    assert!(bears(resolved(true)));
}
