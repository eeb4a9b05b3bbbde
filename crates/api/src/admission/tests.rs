use super::*;

fn review(version: &str, object: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/{version}","kind":"AdmissionReview","request":{{"uid":"u1",
        "kind":{{"group":"apps","version":"v1","kind":"Deployment"}},
        "resource":{{"group":"apps","version":"v1","resource":"deployments"}},"namespace":"shop","operation":"CREATE",
        "object":{object},"oldObject":null,"dryRun":true,"userInfo":{{"username":"a"}}}}}}"#
    )
}

#[test]
fn both_versions_have_the_same_fields() {
    for version in ["v1", "v1beta1"] {
        let review =
            AdmissionReview::read(review(version, r#"{"metadata":{"name":"web"}}"#).as_bytes()).unwrap();
        let request = review.request().unwrap();
        assert_eq!(review.resource(), "deployments.apps");
        assert_eq!(
            (&*request.resource.resource, &*request.namespace, request.dry_run),
            ("deployments", "shop", true)
        );
        assert_eq!((&request.object["metadata"]["name"], &request.old_object), (&json!("web"), &Value::Null));
        let patch: Patch = serde_json::from_value(json!([{"op": "add", "path": "/a", "value": 1}])).unwrap();
        let returned = review.response(&AdmissionDecision::allowed().with_patch(patch));
        let encoded = STANDARD.encode(r#"[{"op":"add","path":"/a","value":1}]"#);
        let response = json!({"uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": encoded});
        let api_version = format!("admission.k8s.io/{version}");
        assert_eq!(
            returned,
            json!({"apiVersion": api_version, "kind": "AdmissionReview", "response": response})
        );
        assert_eq!(
            review.response(&AdmissionDecision::allowed())["response"],
            json!({"uid": "u1", "allowed": true})
        );
        let denied = json!({"uid": "u1", "allowed": false, "status": {"code": 403, "message": "no"}});
        assert_eq!(review.response(&AdmissionDecision::denied("no"))["response"], denied);
    }
}

#[test]
fn review_of_a_deeply_nested_object_gets_a_response() {
    let deep = format!(r#"{{"spec":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    let review = AdmissionReview::read(review("v1", &deep).as_bytes()).unwrap();
    let fault = review.request().unwrap_err();
    assert!(fault.starts_with("the object cannot be read: recursion limit exceeded"), "{fault}");
}

#[test]
fn other_bodies_are_rejected() {
    for body in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#,
        r#"{"apiVersion":"v1","kind":"Pod","request":{"uid":"a"}}"#,
        r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}"#,
    ] {
        assert!(AdmissionReview::read(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn patch_does_not_turn_a_denial_into_an_approval() {
    let patch: Patch = serde_json::from_value(json!([{"op": "remove", "path": "/a"}])).unwrap();
    assert_eq!(AdmissionDecision::denied("no").with_patch(patch), AdmissionDecision::denied("no"));
}
