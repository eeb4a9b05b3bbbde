use super::*;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Kind, ObjectRow, Row};

static WORKS: Kind<EmptyRow> =
    Kind::new("work.open-cluster-management.io", "v1", "manifestworks").with_labels(|_| "a=b".to_owned());

/// A row without data.
#[derive(Clone, Debug, PartialEq)]
struct EmptyRow;

impl Row for EmptyRow {}

impl ObjectRow for EmptyRow {
    fn prune(_: &HubObject, _: &ControllerName) -> Self {
        Self
    }
}

#[test]
fn pages_follow_continue_tokens_to_the_last() {
    let mut pages = Pages::of_source(&WORKS.all(), &WORKS.gvr(), &ControllerName::new("c"), 7);
    let uri = |pages: &Pages| pages.request().unwrap().uri().to_string();
    let first = uri(&pages);
    assert!(first.starts_with("/apis/work.open-cluster-management.io/v1/manifestworks?"), "{first}");
    assert!(first.contains("limit=7") && first.contains("labelSelector="), "{first}");
    assert!(pages.advance(Some("next".to_owned())));
    assert_eq!(uri(&pages), format!("{first}&continue=next"));
    assert!(!pages.advance(Some(String::new())) && !pages.advance(None));
}

#[test]
fn metadata_lists_are_requested_as_partial_object_metadata() {
    let accept = |projection| {
        let pages = Pages::new(&WORKS.gvr(), "eu-1", ListParams::default(), projection);
        let request = pages.request().unwrap();
        let accept = request.headers().get("accept").map(|accept| accept.to_str().unwrap().to_owned());
        (request.uri().to_string(), accept.unwrap_or_default().contains("PartialObjectMetadataList"))
    };
    let path = "/apis/work.open-cluster-management.io/v1/namespaces/eu-1/manifestworks?".to_owned();
    assert_eq!(accept(Projection::Metadata), (path.clone(), true));
    assert_eq!(accept(Projection::Full), (path, false));
}
