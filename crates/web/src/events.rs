//! Events for the script of a page: the pages that have changed.

use std::collections::BTreeSet;

use super::address;
use policy_sync_report::fleet::{Place, Roster};

/// The maximum number of paths in an event. More changes are sent as `*`.
const NAMED: usize = 100;

/// The paths of the pages that show `places`, separated by spaces; `*` for all pages. `roster` contains the
/// kinds of policies.
#[must_use]
pub fn line(roster: &Roster, places: &BTreeSet<Place>) -> String {
    if places.len() > NAMED || places.contains(&Place::Everything) {
        return "*".to_owned();
    }
    let of_places = places.iter().filter_map(|place| match place {
        Place::Everything => None,
        Place::Gateway(key) => Some(address::gateway(key)),
        Place::InForce => Some(address::EFFECTIVE.to_owned()),
        Place::Policy(resource, key) => {
            roster.kind(resource).map(|kind| address::policy(&kind.kind, &resource.group, key))
        }
        Place::Cluster(cluster) => Some(address::cluster(cluster)),
    });
    let is_in_matrix = |place: &Place| matches!(place, Place::Policy(..) | Place::Cluster(_));
    let fleet = places.iter().any(is_in_matrix).then(|| address::FLEET.to_owned());
    fleet.into_iter().chain(of_places).collect::<Vec<_>>().join(" ")
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
        let roster = Roster { kinds, ..Roster::default() };
        let policy = Place::Policy(
            GroupResource::new("kuadrant.io", "ratelimitpolicies"),
            ObjectKey::new("shop", "limits"),
        );
        let places = BTreeSet::from([policy, Place::Cluster("eu-1".into())]);
        assert_eq!(
            line(&roster, &places),
            "/ /policies/ratelimitpolicy.kuadrant.io/shop/limits /clusters/eu-1"
        );
    }

    #[test]
    fn topology_change_does_not_reload_the_matrix() {
        let places = BTreeSet::from([Place::Gateway(ObjectKey::new("shop", "web")), Place::InForce]);
        assert_eq!(line(&Roster::default(), &places), "/gateways/shop/web /effective");
    }

    #[test]
    fn many_changes_are_sent_as_all() {
        let places = (0..=NAMED).map(|n| Place::Cluster(format!("c-{n}").as_str().into())).collect();
        let none = Roster::default();
        assert_eq!(line(&none, &places), "*");
        assert_eq!(line(&none, &BTreeSet::from([Place::Everything, Place::Cluster("eu-1".into())])), "*");
    }
}
