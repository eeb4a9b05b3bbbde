//! Links from the objects of a topology to their pages.

use maud::{Markup, html};

use super::address;
use super::layout::plain;
use policy_sync_api::names::ObjectKey;
use policy_sync_topology::show::NodeLabel;

/// The path of the page of the object with this locator. Only Gateways and kinds whose names end in `policy` have
/// pages.
pub(super) fn page(locator: &str) -> Option<String> {
    let (kind, object) = locator.split_once(':')?;
    let (kind, group) = kind.split_once('.')?;
    let (namespace, name) = object.split('#').next()?.split_once('/')?;
    let key = ObjectKey::new(namespace, name);
    match (kind, group) {
        ("gateway", "gateway.networking.k8s.io") => Some(address::gateway(&key)),
        (_, "gateway.networking.k8s.io") => None,
        _ if kind.ends_with("policy") => Some(address::policy(kind, group, &key)),
        _ => None,
    }
}

/// The object's name, with a link to its page if it has one.
pub(super) fn linked(named: &NodeLabel) -> Markup {
    html! {
        @match page(&named.id) {
            Some(page) => a href=(page) { (plain(&named.words)) },
            None => (plain(&named.words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_and_policies_have_pages() {
        let page_of = |locator: &str| page(locator).unwrap_or_default();
        assert_eq!(page_of("gateway.gateway.networking.k8s.io:shop/web#http"), "/gateways/shop/web");
        let policy = "ratelimitpolicy.kuadrant.io:shop/limits";
        assert_eq!(page_of(policy), "/policies/ratelimitpolicy.kuadrant.io/shop/limits");
        assert_eq!(page("httproute.gateway.networking.k8s.io:shop/orders#rule-1"), None);
        assert_eq!(page("gatewayclass.gateway.networking.k8s.io:synced"), None);
        assert_eq!(page("service:shop/orders"), None);
    }
}
