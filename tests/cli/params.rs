//! `policy-sync params check`, offline and with a real hub.

use std::path::Path;

use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{Fleet, fixtures};
use serde_json::{Value, json};

use crate::run::{CommandOutput, command, finish, run, run_with};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/gatewayclass-params");

fn check(text: &str, arguments: &[&str]) -> CommandOutput {
    run_with(&[&["params", "check", "-", "--offline"], arguments].concat(), text)
}

fn refused(ran: &CommandOutput, says: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains(says) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

#[test]
fn sample_parameters_are_valid() {
    for file in ["parameters.yaml", "examples/every-key.yaml", "examples/hub-wins.yaml"] {
        let path = format!("{FOLDER}/{file}");
        let ran = run(&["params", "check", &path, "--offline"]);
        let printed = (ran.code, ran.stdout, ran.stderr);
        assert_eq!(printed, (0, format!("{path}: valid\n"), String::new()));
    }
}

#[test]
fn all_faults_are_listed_with_their_paths() {
    let text =
        r#"{"conflicts": "both", "policiesToSync": [{"group": "g", "version": 2, "resource": "ps"}, {}]}"#;
    let ran = check(text, &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!(lines[0], "stdin: policiesToSync[0].version: expected a string, found 2");
    assert_eq!(lines[1], "stdin: policiesToSync[1]: group is required");
    let ran = check("{\n \"a\": }", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "stdin: not JSON: expected value at line 2 column 7\n"));
    let ran = check("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {param: '{}'}\n", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "stdin: has no key \"params\"\n"));
}

#[test]
fn json_and_yaml_output_contain_the_faults() {
    for (output, read) in [
        ("json", (|text| serde_json::from_str(text).unwrap()) as fn(&str) -> Value),
        ("yaml", |text| serde_saphyr::from_str(text).unwrap()),
    ] {
        let ran = check(r#"{"conflicts": 1}"#, &["-o", output]);
        assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
        let printed = read(&ran.stdout);
        assert_eq!(printed["items"][0]["faults"][0]["place"], "conflicts");
        assert_eq!((&printed["items"][0]["valid"], &printed["rightsOf"]), (&json!(false), &Value::Null));
    }
}

/// A file with parameters that list status fields, and a policy of the listed kind.
fn with_fields() -> (tempfile::TempDir, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parameters.json").display().to_string();
    let field = |name: &str, path: &str| json!({"name": name, "path": path});
    let fields = [
        field("generation", ".status.observedGeneration"),
        field("reason", ".status.conditions[?(@.type==\"Enforced\")].reason"),
        field("missing", ".status.nothing"),
        field("all", ".status.conditions"),
        field("types", ".status.conditions[?(@.status==\"True\")].type"),
    ];
    let kind = json!({"group": "kuadrant.io", "version": "v1", "resource": "ratelimitpolicies", "statusFields": fields});
    std::fs::write(&file, json!({"policiesToSync": [kind]}).to_string()).unwrap();
    let condition = |name: &str, reason: &str| json!({"type": name, "status": "True", "reason": reason});
    let policy = json!({
        "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy", "metadata": {"name": "limits", "namespace": "shop"},
        "status": {"observedGeneration": 3, "conditions": [condition("Accepted", "Fits"), condition("Enforced", "Is\u{1b}")]},
    });
    (folder, file, policy)
}

#[test]
fn values_of_status_field_paths_are_printed() {
    let (_folder, file, policy) = with_fields();
    let arguments = ["params", "check", &file, "--offline", "--object", "-"];
    let ran = run_with(&arguments, &policy.to_string());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let rows: Vec<Vec<&str>> = ran
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let cells = |row: usize| (rows[row][1], rows[row][3], rows[row][4]);
    assert_eq!(rows[0], ["OBJECT", "FIELD", "PATH", "VALUE", "MESSAGE"]);
    assert_eq!(rows[1][..2], ["RateLimitPolicy shop/limits", "generation"]);
    assert_eq!(cells(1), ("generation", "3", "-"));
    assert_eq!(cells(2), ("reason", r#""Is\u001b""#, "-"));
    assert_eq!(cells(3), ("missing", "-", "no value is reported"));
    assert!(cells(4).1.starts_with("[{") && cells(4).2.starts_with("reported as JSON"), "{}", ran.stdout);
    assert_eq!(cells(5).1, r#"["Accepted","Enforced"]"#);
    assert!(cells(5).2.ends_with("otherwise only the first value"), "{}", ran.stdout);

    let ran = run_with(&[&arguments[..], &["-o", "json"]].concat(), &policy.to_string());
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    let object = &list["objects"][0];
    assert_eq!(object["object"], "RateLimitPolicy shop/limits");
    assert_eq!(object["fields"][0]["values"], json!([3]));
    assert_eq!(
        object["fields"][2],
        json!({"name": "missing", "path": ".status.nothing", "values": [], "message": "no value is reported"})
    );
}

#[test]
fn object_of_an_unlisted_kind_is_rejected() {
    let (_folder, file, mut policy) = with_fields();
    let check = |text: &str| run_with(&["params", "check", &file, "--offline", "--object", "-"], text);
    policy["apiVersion"] = json!("kuadrant.io/v2");
    let says = "stdin:1: the parameters do not list the kind RateLimitPolicy of kuadrant.io/v2";
    refused(&check(&policy.to_string()), says);
    refused(&check("[1]"), "stdin:1: expected a Kubernetes object");
    refused(&check(""), "stdin: no object");
    refused(&check("a: [\n"), "stdin:1: document 1: ");
    let bad = json!({"policiesToSync": [{"group": "g", "version": "v1", "resource": "ps", "statusFields": [{"name": "a", "path": "x"}]}]});
    let ran = run_with(&["params", "check", "-", "--offline", "--object", "/nowhere"], &bad.to_string());
    assert!(
        ran.code == 1 && ran.stdout.contains("statusFields[0].path"),
        "expected the fault in the parameters first: {ran:?}"
    );
    let both = run_with(&["params", "check", "-", "--offline", "--object", "-"], "{}");
    refused(&both, "FILE and --object cannot both be standard input");
}

#[test]
fn deprecated_parameter_name_causes_a_warning() {
    let ran = check(r#"{"experimentalPolicySync": []}"#, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "stdin: valid\n"));
    assert_eq!(ran.stderr, "stdin: warning: experimentalPolicySync: is an old name of policiesToSync\n");
}

#[test]
fn input_without_parameters_is_rejected() {
    refused(&run(&["params", "check", "nowhere", "--offline"]), "cannot read nowhere: No such file");
    let class = format!("{FOLDER}/gatewayclass.yaml");
    refused(&run(&["params", "check", &class, "--offline"]), "no parameters: expected their JSON");
    refused(&check("kind: [\n", &[]), "stdin:1: document 1: ");
    refused(
        &run_with(&["params", "check", "-", "--kubeconfig", "nowhere"], "{}"),
        "cannot read kubeconfig nowhere",
    );
    assert_eq!(run(&["params", "check"]).code, 2);
    assert_eq!(check("{}", &["-o", "wide"]).code, 2);
}

#[test]
fn parameters_are_checked_offline_if_no_hub_is_configured() {
    let ran = run_with(&["params", "check", "-"], "{}");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "stdin: valid\n"));
    assert!(ran.stderr.starts_with("no hub is configured"), "{}", ran.stderr);
}

pub(crate) fn check_on(kubeconfig: &Path, parameters: &Value) -> CommandOutput {
    let mut command = command(&["params", "check", "-", "--controller-name", "example.com/checked"]);
    command.arg("--kubeconfig").arg(kubeconfig);
    finish(command, &parameters.to_string())
}

#[tokio::test]
async fn kinds_and_rights_are_checked_on_the_hub() {
    let hub = Fleet::shared_hub().await.unwrap().hub();
    let gvr = |group: &str, version: &str, resource: &str| json!({"group": group, "version": version, "resource": resource});
    let limits = gvr("kuadrant.io", "v1", "ratelimitpolicies");
    let ran = check_on(hub.kubeconfig(), &json!({"policiesToSync": [limits]}));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("these are the rights of "), "{}", ran.stderr);
    assert!(ran.stdout.contains("kuadrant.io/v1 ratelimitpolicies   Resolved   -"), "{}", ran.stdout);

    let bad = json!({"policiesToSync": [limits, gvr("kuadrant.io", "v9", "authpolicies"),
        gvr("example.com", "v1", "nothings"), gvr("gateway.networking.k8s.io", "v1", "gatewayclasses")]});
    let ran = check_on(hub.kubeconfig(), &bad);
    assert_eq!(ran.code, 1, "{ran:?}");
    for row in [
        "Resolved",
        "UnknownResource   the hub serves",
        "the hub has no such custom resource",
        "it is cluster-scoped",
    ] {
        assert!(ran.stdout.contains(row), "{row}: {}", ran.stdout);
    }

    let class = fixtures::gateway_class("checked", "example.com/checked", None);
    policy_sync_testenv::apply::apply(&hub.client().unwrap(), &class).await.unwrap();
    let ran = check_on(hub.kubeconfig(), &json!({"downstreamClass": "checked"}));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("downstreamClass: \"checked\" is itself a class of"), "{}", ran.stdout);

    let nobody = hub.kubeconfig_for(&User::new("nobody")).unwrap();
    let ran = check_on(&nobody, &json!({}));
    assert_eq!((ran.code, ran.stdout.as_str()), (2, "stdin: valid\n"), "{}", ran.stderr);
    let why = "policy-sync: downstreamClass is not checked: cannot read GatewayClass istio on the hub at";
    assert!(ran.stderr.lines().last().unwrap().starts_with(why), "{}", ran.stderr);
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    // Faults in the parameters still determine the exit code.
    let ran = check_on(&nobody, &json!({"policiesToSync": [limits]}));
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stdout.contains("Forbidden") && ran.stderr.contains(why), "{ran:?}");
}
