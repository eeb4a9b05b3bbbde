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
    /// Locators are in the order of their text, so that printed lists are sorted.
    #[test]
    fn locators_compare_as_their_text(left in texts(), right in texts()) {
        let (left, right) = (locator(&left), locator(&right));
        let text = left.to_string().cmp(&right.to_string());
        if text != Ordering::Equal {
            prop_assert_eq!(left.cmp_object(&right), text);
        }
    }
}

#[test]
fn section_sorts_before_longer_object_names() {
    let object = Locator { kind: GATEWAY, namespace: "a", name: "b", section: None };
    let section = object.with(Some(Section::Named("z")));
    let other = Locator { name: "b-c", ..object };
    assert!(object.to_string() < section.to_string() && section.to_string() < other.to_string());
}

#[test]
fn locators_have_the_documented_format() {
    let object =
        Locator { kind: HTTP_ROUTE, namespace: "shop", name: "r", section: Some(Section::Shadowed(2)) };
    assert_eq!(object.to_string(), "httproute.gateway.networking.k8s.io:shop/r#rule-2~2");
    let service = Locator { kind: SERVICE, namespace: "shop", name: "s", section: Some(Section::Port(80)) };
    assert_eq!(service.to_string(), "service:shop/s#80");
    let class = Locator { kind: GATEWAY_CLASS, namespace: "", name: "istio", section: None };
    assert_eq!(class.to_string(), "gatewayclass.gateway.networking.k8s.io:istio");
}

#[test]
fn shadowed_rule_cannot_be_referenced() {
    assert!(Section::Rule(1).is("rule-1"));
    assert!(!Section::Shadowed(1).is("rule-1~1"));
    assert!(!Section::Shadowed(1).is("rule-1"));
}
