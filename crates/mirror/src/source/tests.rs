use super::*;
use crate::{Family, Kind, ObjectRow};

#[derive(Clone, Debug, PartialEq)]
struct Secret;

impl Row for Secret {}

impl ObjectRow for Secret {
    fn prune(_: &HubObject, _: &ControllerName) -> Self {
        Self
    }
}

static SECRETS: Kind<Secret> =
    Kind::new("", "v1", "secrets").with_fields("type=kubernetes.io/tls").with_labels(|_| "a=b".to_owned());
static MANY: Family<Secret> = Family::new("many").of_metadata();

#[test]
fn scope_restricts_the_requests() {
    let of = |namespace, name| SECRETS.all().within(Scope::new(namespace, name));
    let [all, here, named, one] =
        [of(None, None), of(Some("shop"), None), of(None, Some("web")), of(Some("shop"), Some("web"))];
    assert_eq!(all, SECRETS.all());
    assert_eq!([&all, &here, &named, &one].map(Source::namespace), ["", "shop", "", "shop"]);
    let fields = [&all, &here, &named, &one].map(|source| source.fields().unwrap());
    let (kind, both) = ("type=kubernetes.io/tls", "type=kubernetes.io/tls,metadata.name=web");
    assert_eq!(fields, [kind, kind, both, both]);
    assert!([&all, &here, &named].iter().all(|source| source.object().is_none()));
    assert_eq!(one.object(), Some(&ObjectKey::new("shop", "web")));
    assert_eq!(one, SECRETS.object(ObjectKey::new("shop", "web")));
    assert_eq!(
        [all, here, named, one].map(|source| source.to_string()),
        ["secrets", "secrets in shop", "secrets named web", "secrets shop/web"]
    );
}

#[test]
fn resources_of_a_family_are_distinct_sources_with_its_extent() {
    let resource = |name: &str| GroupResource { group: "example.com".into(), resource: name.into() };
    let (a, b) = (MANY.resource(resource("as")), MANY.resource(resource("bs")));
    assert!(a != b && a < b && a != MANY.all() && a.is(&MANY) && !a.is(&SECRETS));
    assert_eq!((a.resource(), a.to_string()), (Some(&resource("as")), "as.example.com".to_owned()));
    assert_eq!((a.projection(), SECRETS.all().projection()), (Projection::Metadata, Projection::Full));
    assert_eq!((a.fields(), a.labels(&ControllerName::new("c"))), (None, None));
}
