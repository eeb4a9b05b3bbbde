//! Which changes of what the sync watches have the graph built anew.

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ControllerName, GroupVersionResource};
use policy_sync_mirror::Change;
use policy_sync_sync::rows::kind::{KindInfo, Resolution};
use policy_sync_sync::topology::affects_topology;
use policy_sync_sync::{Mirror, found};

#[test]
fn a_kind_whose_policies_become_direct_is_another() {
    let mirror = Mirror::new(ControllerName::new("example.com/c"));
    let gvr = GroupVersionResource::new("example.com", "v1", "timeoutpolicies");
    let bears = |change: Change| {
        let changes = mirror.change(change, Moment::default());
        changes.iter().any(|changed| affects_topology(changes.view(), changed))
    };
    let resolved = |direct: bool| {
        let info = KindInfo { direct, ..KindInfo::named("TimeoutPolicy") };
        found::resolved(&gvr, Resolution::Resolved(info))
    };
    assert!(bears(resolved(false)));
    assert!(!bears(resolved(false)), "it is as before");
    assert!(bears(resolved(true)));
}
