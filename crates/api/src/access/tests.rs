use serde_json::{Value, json};

use super::*;

fn read(review: &Value) -> Result<AccessReview, String> {
    AccessReview::read(review.to_string().into_bytes())
}

#[test]
fn review_has_either_a_resource_or_a_path() {
    let of = |spec: Value| {
        let review =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        read(&review).unwrap().attributes
    };
    let resource = json!({"namespace": "shop", "verb": "get", "group": "apps", "resource": "deployments", "name": "web"});
    let path = json!({"path": "/metrics", "verb": "get"});
    let expected = ResourceAttributes {
        group: "apps".to_owned(),
        resource: "deployments".to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    assert_eq!(of(json!({"resourceAttributes": resource})), Ok(Attributes::Resource(expected)));
    assert_eq!(of(json!({"nonResourceAttributes": path})), Ok(Attributes::Path("/metrics".to_owned())));
    let list = json!({"verb": "list", "resource": "nodes"});
    let all = ResourceAttributes { resource: "nodes".to_owned(), ..ResourceAttributes::default() };
    assert_eq!(of(json!({"resourceAttributes": list})), Ok(Attributes::Resource(all)));
    let neither = "the review has neither resourceAttributes nor nonResourceAttributes";
    assert_eq!(of(json!({"user": "jane"})), Err(neither));
    let both = "the review has both resourceAttributes and nonResourceAttributes";
    let spec = json!({"resourceAttributes": resource, "nonResourceAttributes": path});
    assert_eq!(of(spec), Err(both));
}

#[test]
fn other_bodies_are_rejected_with_the_reason() {
    let fault = |review: Value| read(&review).unwrap_err();
    let other = "expected a SubjectAccessReview, found";
    assert_eq!(
        fault(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})),
        format!("{other} admission.k8s.io/v1 AdmissionReview")
    );
    assert_eq!(
        fault(json!({"apiVersion": "authorization.k8s.io/v2", "kind": "SubjectAccessReview"})),
        format!("{other} authorization.k8s.io/v2 SubjectAccessReview")
    );
    assert!(fault(json!([])).contains("invalid"), "{}", fault(json!([])));
    assert!(AccessReview::read(vec![0xff]).unwrap_err().contains("utf-8"));
}

#[test]
fn response_never_allows() {
    for version in VERSIONS {
        let review = json!({"apiVersion": version, "kind": "SubjectAccessReview", "spec": {}});
        let review = read(&review).unwrap();
        let expected =
            |status: Value| json!({"apiVersion": version, "kind": "SubjectAccessReview", "status": status});
        assert_eq!(review.response(&AccessDecision::None), expected(json!({"allowed": false})));
        let denied = json!({"allowed": false, "denied": true, "reason": "why"});
        assert_eq!(review.response(&AccessDecision::Denied("why".to_owned())), expected(denied));
    }
}
