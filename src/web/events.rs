//! What has changed, as the script of a page reads it.

use std::collections::BTreeSet;

use super::address;
use crate::report::fleet::{Place, Roster};

/// The most pages that a line names: a fleet that changes as a whole is one word.
const NAMED: usize = 100;

/// The addresses of the pages on which `places` are shown, with blanks between them; `*` stands for all pages. Kinds are those of
/// `roster`.
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

    use crate::report::ServedKind;
    use policy_sync_api::names::{GroupResource, GroupVersionResource, ObjectKey};
    use policy_sync_api::params::Role;

    #[test]
    fn a_line_names_the_pages_that_changed() {
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
    fn what_is_attached_is_in_no_matrix() {
        let places = BTreeSet::from([Place::Gateway(ObjectKey::new("shop", "web")), Place::InForce]);
        assert_eq!(line(&Roster::default(), &places), "/gateways/shop/web /effective");
    }

    #[test]
    fn many_are_all() {
        let places = (0..=NAMED).map(|n| Place::Cluster(format!("c-{n}").as_str().into())).collect();
        let none = Roster::default();
        assert_eq!(line(&none, &places), "*");
        assert_eq!(line(&none, &BTreeSet::from([Place::Everything, Place::Cluster("eu-1".into())])), "*");
    }
}
