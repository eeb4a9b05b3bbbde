//! `policy-sync plan` for files: the works for the given manifests.

use std::fs;

use serde_json::Value;

use crate::run::{CommandOutput, run, run_with};

const CRDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hack/testenv/crds");

/// The cluster and the name of each work, without the hash.
fn works(yaml: &str) -> Vec<String> {
    let works: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap();
    let name = |work: &Value| {
        let metadata = &work["metadata"];
        let name = metadata["name"].as_str().unwrap().rsplit_once('-').unwrap().0.to_owned();
        format!("{} {name}", metadata["namespace"].as_str().unwrap())
    };
    works.iter().map(name).collect()
}

#[test]
fn directory_gives_the_works_of_all_clusters() {
    let ran = run(&["plan", "-f", "shop", "-f", CRDS]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!("shop", ran.stdout);
    assert_eq!(
        works(&ran.stdout),
        [
            "eu-1 access",
            "eu-1 gateway-web",
            "eu-1 ratelimitpolicy-limits",
            "eu-1 timeoutpolicy-timeouts",
            "us-1 access",
            "us-1 gateway-web",
            "us-1 ratelimitpolicy-limits",
        ]
    );
}

#[test]
fn kinds_are_inferred_from_policies_without_crds() {
    let ran = run(&["plan", "-f", "shop"]);
    assert_eq!(ran.code, 0);
    insta::assert_snapshot!("inferred", ran.stderr);
    // The CustomResourceDefinition shows that the status of a TimeoutPolicy has an entry for each Gateway. Therefore its
    // work has a condition rule, which is missing without the CustomResourceDefinition.
    let works = |stdout: &str| {
        let mut works: Vec<Value> = serde_saphyr::from_multiple(stdout).unwrap();
        let mut rules = 0;
        for config in
            works.iter_mut().flat_map(|work| work["spec"]["manifestConfigs"].as_array_mut().unwrap())
        {
            rules += usize::from(config.as_object_mut().unwrap().remove("conditionRules").is_some());
        }
        (works, rules)
    };
    let (inferred, defined) = (works(&ran.stdout), works(&run(&["plan", "-f", "shop", "-f", CRDS]).stdout));
    assert_eq!(inferred.0, defined.0);
    assert_eq!((inferred.1, defined.1), (0, 1));
}

#[test]
fn faults_are_reported_and_other_objects_are_planned() {
    let ran = run(&["plan", "-f", "faults", "-f", CRDS]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!("faults", ran.stderr);
    assert_eq!(works(&ran.stdout), ["eu-1 access", "eu-1 gateway-web", "eu-1 retrypolicy-retries"]);
}

#[test]
fn overrides_are_validated_against_the_given_crd() {
    let definition = |rate: &str| {
        format!(
            "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
             metadata: {{name: ratelimitpolicies.kuadrant.io}}, spec: {{group: kuadrant.io, scope: Namespaced, \
             names: {{kind: RateLimitPolicy, plural: ratelimitpolicies}}, versions: [{{name: v1, served: true, \
             storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{spec: {{type: object, \
             x-kubernetes-preserve-unknown-fields: true, properties: {{targetRef: \
             {{type: object, x-kubernetes-preserve-unknown-fields: true}}, limits: {rate}}}}}}}}}}}}}]}}}}"
        )
    };
    let ran = run_with(&["plan", "-f", "shop", "-f", "-"], &definition("{type: array}"));
    assert_eq!(ran.code, 1);
    let fault = "RateLimitPolicy shop/limits: error: annotation \
                 kuadrant.io/cluster-overrides[0].patch.limits: expected a list, found an object\n";
    assert!(ran.stderr.contains(fault), "{}", ran.stderr);
    assert!(!ran.stdout.contains("ratelimitpolicy-limits"));
    let free = definition("{x-kubernetes-preserve-unknown-fields: true}");
    assert_eq!(run_with(&["plan", "-f", "shop", "-f", "-"], &free).code, 0);
}

#[test]
fn resources_are_planned_with_their_replicas() {
    let ran = run(&["plan", "-f", "resources", "-n", "shop"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    insta::assert_snapshot!("resources", ran.stdout);
    insta::assert_snapshot!("resources_said", ran.stderr);
}

#[test]
fn output_does_not_depend_on_the_order_of_files() {
    let files = ["shop/class.yaml", "shop/fleet.json", "shop/gateway.yml", "shop/policies.yaml"];
    let plan = |files: &[&str]| {
        let arguments: Vec<&str> =
            ["plan"].into_iter().chain(files.iter().flat_map(|file| ["-f", file])).collect();
        run(&arguments).stdout
    };
    let forward = plan(&files);
    let mut backward = files;
    backward.reverse();
    assert_eq!(forward, plan(&backward));
    assert_eq!(forward, plan(&["shop"]));
    assert!(!forward.is_empty());
}

#[test]
fn json_output_has_the_same_objects_as_yaml() {
    let list: Value = serde_json::from_str(&run(&["plan", "-f", "shop", "-o", "json"]).stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&run(&["plan", "-f", "shop"]).stdout).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"], Value::from(documents));
}

#[test]
fn standard_input_is_accepted_as_a_file() {
    let policies =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/data/shop/policies.yaml"));
    let files = ["-f", "shop/class.yaml", "-f", "shop/fleet.json", "-f", "shop/gateway.yml", "-f", "-"];
    let arguments: Vec<&str> = ["plan"].into_iter().chain(files).collect();
    let ran = run_with(&arguments, &policies.unwrap());
    assert_eq!(ran.stdout, run(&["plan", "-f", "shop"]).stdout);
}

#[test]
fn flags_of_the_controller_affect_the_plan() {
    let ran = run(&["plan", "-f", "shop", "--downstream-namespace-prefix", "hub-"]);
    assert!(ran.stdout.contains("namespace: hub-shop") && !ran.stdout.contains("kuadrant-shop"));
    let ran = run(&["plan", "-f", "shop", "--controller-name", "example.com/other"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(ran.stderr.contains("class.yaml:1: GatewayClass synced: note: not used"), "{}", ran.stderr);
    let ran = run(&["plan", "-f", "shop", "--reserved-namespaces", "kuadrant-*"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    assert!(
        ran.stderr.contains("Gateway shop/web: error: namespace shop maps to kuadrant-shop"),
        "{}",
        ran.stderr
    );
}

#[test]
fn namespace_flag_is_the_default_for_objects_without_one() {
    let policy = "{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {name: more}, spec: {targetRef: \
                  {group: gateway.networking.k8s.io, kind: Gateway, name: web}}}";
    let ran = run_with(&["plan", "-f", "shop", "-f", "-", "-n", "shop"], policy);
    assert!(works(&ran.stdout).contains(&"eu-1 ratelimitpolicy-more".to_owned()), "{}", ran.stderr);
}

#[test]
fn later_duplicate_replaces_the_earlier_object() {
    let gateway = "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: web, namespace: shop}, \
                   spec: {gatewayClassName: synced}}";
    let ran = run_with(&["plan", "-f", "shop", "-f", "-"], gateway);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert!(
        ran.stderr.contains("stdin:1: Gateway shop/web: warning: replaces the one at shop/gateway.yml:1"),
        "{}",
        ran.stderr
    );
}

#[test]
fn works_have_only_fields_of_the_given_manifestwork_crd() {
    let definition = |strategies: &str| {
        format!(
            "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
             metadata: {{name: manifestworks.work.open-cluster-management.io}}, \
             spec: {{group: work.open-cluster-management.io, scope: Namespaced, \
             names: {{kind: ManifestWork, plural: manifestworks}}, \
             versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: \
             {{spec: {{type: object, properties: {{manifestConfigs: {{type: array, items: {{type: object, properties: \
             {{updateStrategy: {{type: object, properties: {{type: {{type: string, enum: [{strategies}]}}, \
             serverSideApply: {{type: object}}}}}}}}}}}}}}}}}}}}}}}}]}}}}"
        )
    };
    let old =
        run_with(&["plan", "-f", "shop", "-f", "-"], &definition("Update, CreateOnly, ServerSideApply"));
    assert_eq!((old.code, works(&old.stdout).len()), (0, 7), "{}", old.stderr);
    assert!(!old.stdout.contains("feedbackScrapeType"));
    let older = run_with(&["plan", "-f", "shop", "-f", "-"], &definition("Update"));
    assert_eq!((older.code, older.stdout.as_str()), (1, ""));
    assert!(
        older.stderr.contains("error: the hub's ManifestWork has no update strategy"),
        "{}",
        older.stderr
    );
}

fn refused(ran: &CommandOutput, says: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains(says) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

#[test]
fn unreadable_input_is_reported_with_its_place() {
    refused(&run(&["plan", "-f", "nowhere.yaml"]), "cannot read nowhere.yaml: No such file");
    refused(
        &run_with(&["plan", "-f", "-"], "---\nb: [\n"),
        "policy-sync: stdin:2: document 1: unclosed bracket '[' at column 4",
    );
    refused(&run_with(&["plan", "-f", "-"], "---\na: 1\n"), "stdin:2: an object without apiVersion");
    refused(
        &run_with(&["plan", "-f", "-"], "{\"kind\": \"a\",\n]"),
        "stdin:2: document 1: key must be a string",
    );
    let empty = tempfile::tempdir().unwrap();
    refused(&run(&["plan", "-f", empty.path().to_str().unwrap()]), "has no .yaml, .yml or .json file");
    let binary = empty.path().join("binary.yaml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    refused(&run(&["plan", "-f", binary.to_str().unwrap()]), "stream did not contain valid UTF-8");
}

#[test]
fn unreadable_document_leaves_the_others() {
    let expected = run(&["plan", "-f", "shop"]);
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yaml");
    let bad = bad.to_str().unwrap();
    let good = fs::read_to_string("tests/cli/data/shop/policies.yaml").unwrap();
    let text = format!("{good}---\nkind: [\n---\nkind: Gateway\n---\nkind: ConfigMap\nkind: Secret\n");
    fs::write(bad, text).unwrap();
    let files = ["shop/class.yaml", "shop/fleet.json", "shop/gateway.yml", bad];
    let ran = run(&[&["plan"], &files.map(|file| ["-f", file]).concat()[..]].concat());
    assert_eq!((ran.code, &ran.stdout), (2, &expected.stdout), "{}", ran.stderr);
    let (line, document) = (good.lines().count(), good.split("\n---\n").count());
    let faults = [
        format!(
            "policy-sync: {bad}:{}: document {}: unclosed bracket '[' at column 7",
            line + 2,
            document + 1
        ),
        format!("policy-sync: {bad}:{}: an object without apiVersion", line + 4),
        format!("policy-sync: {bad}:{}: document {}: duplicate key \"kind\"", line + 7, document + 3),
    ];
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines.ends_with(&faults.each_ref().map(String::as_str)), "{}", ran.stderr);
}

#[test]
fn quoted_scalar_may_end_at_the_indentation_of_its_key() {
    let config_map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n    a: '[\n      x\n    ]'\n";
    let ran = run_with(&["plan", "-f", "shop", "-f", "-"], config_map);
    assert_eq!((ran.code, &ran.stdout), (0, &run(&["plan", "-f", "shop"]).stdout), "{}", ran.stderr);
}

#[test]
fn invalid_arguments_exit_with_2() {
    assert_eq!(run(&["plan"]).code, 2);
    assert_eq!(run(&["plan", "-f", "shop", "-o", "table"]).code, 2);
    refused(&run(&["plan", "-f", "shop", "--controller-name", ""]), "--controller-name must not be empty");
}
