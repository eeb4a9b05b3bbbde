use super::*;
use crate::cli::plan::manifests;

fn resolved(manifests: &str, version: &str) -> KindResolution {
    let inventory = Inventory::new(manifests::parse("file", manifests).unwrap(), "default");
    resolve_kind(
        &inventory,
        Role::Policy,
        &GroupVersionResource::new("example.com", version, "ratelimitpolicies"),
    )
}

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ratelimitpolicies.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: RateLimitPolicy, plural: ratelimitpolicies}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {targetRef: {type: object}}}}}}
";

#[test]
fn kind_is_resolved_from_its_definition() {
    let KindResolution::Defined(kind, Resolution::Resolved(info)) = resolved(DEFINITION, "v1") else {
        panic!()
    };
    assert_eq!((&*kind, &*info.kind, info.schema.is_some()), ("RateLimitPolicy", "RateLimitPolicy", true));
    let KindResolution::Defined(_, Resolution::UnknownVersion(fault)) = resolved(DEFINITION, "v2") else {
        panic!()
    };
    assert_eq!(fault, "the hub serves v1");
}

#[test]
fn kind_without_a_definition_is_inferred_from_an_object() {
    let policy = |kind: &str| format!("apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a}}");
    assert_eq!(
        resolved(&policy("RateLimitPolicy"), "v1"),
        KindResolution::Inferred("RateLimitPolicy".into())
    );
    assert_eq!(resolved(&policy("AuthPolicy"), "v1"), KindResolution::Absent);
    assert_eq!(resolved("", "v1"), KindResolution::Absent);
}
