//! Events for the script of a page: the pages that have changed.

use std::collections::BTreeSet;

use super::address;
use policy_sync_report::fleet::{ChangedPart, WatchedKinds};

/// The maximum number of changed parts whose paths an event lists. For more parts, the event is `*`.
const PATHS_LIMIT: usize = 100;

/// The paths of the pages that show `changed_parts`, separated by spaces; `*` for all pages. `watched_kinds` contains
/// the kinds of policies.
#[must_use]
pub fn event_paths(watched_kinds: &WatchedKinds, changed_parts: &BTreeSet<ChangedPart>) -> String {
    if changed_parts.len() > PATHS_LIMIT || changed_parts.contains(&ChangedPart::Everything) {
        return "*".to_owned();
    }
    let of_parts = changed_parts.iter().filter_map(|part| match part {
        ChangedPart::Everything => None,
        ChangedPart::Gateway(key) => Some(address::gateway(key)),
        ChangedPart::EffectivePolicies => Some(address::EFFECTIVE.to_owned()),
        ChangedPart::Policy(resource, key) => {
            watched_kinds.kind(resource).map(|kind| address::policy(&kind.kind, &resource.group, key))
        }
        ChangedPart::Cluster(cluster) => Some(address::cluster(cluster)),
    });
    let is_in_matrix = |part: &ChangedPart| matches!(part, ChangedPart::Policy(..) | ChangedPart::Cluster(_));
    let fleet = changed_parts.iter().any(is_in_matrix).then(|| address::FLEET.to_owned());
    fleet.into_iter().chain(of_parts).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

    use policy_sync_api::names::{GroupResource, GroupVersionResource, ObjectKey};
    use policy_sync_api::params::Role;
    use policy_sync_report::ServedKind;

    #[test]
    fn event_lists_the_paths_of_changed_pages() {
        let served = APIResource {
            kind: "RateLimitPolicy".to_owned(),
            name: "ratelimitpolicies".to_owned(),
            namespaced: true,
            ..APIResource::default()
        };
        let gvr = GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies");
        let kinds = vec![ServedKind::new(Role::Policy, gvr, &served)];
        let watched_kinds = WatchedKinds { kinds, ..WatchedKinds::default() };
        let policy = ChangedPart::Policy(
            GroupResource::new("kuadrant.io", "ratelimitpolicies"),
            ObjectKey::new("shop", "limits"),
        );
        let changed_parts = BTreeSet::from([policy, ChangedPart::Cluster("eu-1".into())]);
        assert_eq!(
            event_paths(&watched_kinds, &changed_parts),
            "/ /policies/ratelimitpolicy.kuadrant.io/shop/limits /clusters/eu-1"
        );
    }

    #[test]
    fn topology_change_does_not_reload_the_matrix() {
        let changed_parts = BTreeSet::from([
            ChangedPart::Gateway(ObjectKey::new("shop", "web")),
            ChangedPart::EffectivePolicies,
        ]);
        assert_eq!(event_paths(&WatchedKinds::default(), &changed_parts), "/gateways/shop/web /effective");
    }

    #[test]
    fn many_changes_are_sent_as_all() {
        let changed_parts =
            (0..=PATHS_LIMIT).map(|n| ChangedPart::Cluster(format!("c-{n}").as_str().into())).collect();
        let none = WatchedKinds::default();
        assert_eq!(event_paths(&none, &changed_parts), "*");
        assert_eq!(
            event_paths(
                &none,
                &BTreeSet::from([ChangedPart::Everything, ChangedPart::Cluster("eu-1".into())])
            ),
            "*"
        );
    }
}
