use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn texts() -> impl Strategy<Value = (String, String, String, String)> {
    let name = || select(vec!["a", "a-b", "a.b", "b", "a0"]);
    let namespace = select(vec!["", "a", "a-b", "ab"]);
    let kind = select(vec!["Gateway", "GatewayClass", "HTTPRoute", "gateway"]);
    let group = select(vec!["", "a.io", "b.io"]);
    (kind, group, namespace, name()).prop_map(|(kind, group, namespace, name)| {
        (kind.to_owned(), group.to_owned(), namespace.to_owned(), name.to_owned())
    })
}

fn locator((kind, group, namespace, name): &(String, String, String, String)) -> Locator<'_> {
    Locator { kind: KindRef { group, kind }, namespace, name, section: None }
}

proptest! {
    /// Nodes are in the order of what is printed of them, so that lists of them are sorted.
    #[test]
    fn objects_are_in_the_order_of_their_text(left in texts(), right in texts()) {
        let (left, right) = (locator(&left), locator(&right));
        let text = left.to_string().cmp(&right.to_string());
        if text != Ordering::Equal {
            prop_assert_eq!(left.cmp_object(&right), text);
        }
    }
}

#[test]
fn a_section_stands_before_every_longer_name() {
    let object = Locator { kind: GATEWAY, namespace: "a", name: "b", section: None };
    let section = object.with(Some(Section::Named("z")));
    let other = Locator { name: "b-c", ..object };
    assert!(object.to_string() < section.to_string() && section.to_string() < other.to_string());
}

#[test]
fn locators_are_written_as_in_the_contract() {
    let object =
        Locator { kind: HTTP_ROUTE, namespace: "shop", name: "r", section: Some(Section::Shadowed(2)) };
    assert_eq!(object.to_string(), "httproute.gateway.networking.k8s.io:shop/r#rule-2~2");
    let service = Locator { kind: SERVICE, namespace: "shop", name: "s", section: Some(Section::Port(80)) };
    assert_eq!(service.to_string(), "service:shop/s#80");
    let class = Locator { kind: GATEWAY_CLASS, namespace: "", name: "istio", section: None };
    assert_eq!(class.to_string(), "gatewayclass.gateway.networking.k8s.io:istio");
}

#[test]
fn nothing_can_mean_a_place_whose_name_another_has() {
    assert!(Section::Rule(1).is("rule-1"));
    assert!(!Section::Shadowed(1).is("rule-1~1"));
    assert!(!Section::Shadowed(1).is("rule-1"));
}
