//! `policy-sync audit` for files, and for a hub without a controller.

use std::path::Path;
use std::time::{Duration, Instant};

use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, binaries, crds};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::run::{CommandOutput, command, finish, run, run_with};

const FILES: [&str; 5] = ["audit", "-f", "objects", "-p", "policies"];

#[test]
fn audit_lists_violations_of_the_published_rego_policies() {
    let ran = run(&FILES);
    let expected = "\
ENFORCEMENT   KIND         NAMESPACE   NAME    ID                  MESSAGE
deny          ingresses    shop        front   ingress-conflict    host shop.example.com is taken by Ingress legacy/front
deny          namespaces   -           shop    required-labels     label cost-center is missing
deny          pods         shop        till    image-pull-policy   images are pulled each time
deny          services     shop        web     allowed-ports       port 22 is not one of {80, 443, 8080, 8443}
";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, expected, ""));
    let json_of =
        |more: &[&str]| -> Value { serde_json::from_str(&run(&[&FILES, more].concat()).stdout).unwrap() };
    let report = json_of(&["-o", "json"]);
    assert_eq!((&report["message"], &report["truncated"]), (&json!("total violations:4"), &json!(false)));
    assert_eq!(
        report["violations"][2],
        json!({
            "id": "image-pull-policy", "resource": {"kind": "pods", "namespace": "shop", "name": "till"},
            "resolution": {"message": "images are pulled each time", "patches": [
                {"op": "replace", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"}]},
            "policy": "policies/gates/image-pull-policy.rego", "enforcement": "deny",
        })
    );
    // `--exempt-namespaces` takes the same patterns as the flag of the controller.
    let all = json_of(&["-o", "json", "--exempt-namespaces="]);
    let pods = all["violations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|violation| violation["resource"]["kind"] == "pods");
    let names: Vec<String> =
        pods.map(|pod| format!("{} {}", pod["resource"]["namespace"], pod["id"])).collect();
    let system = [r#""kube-system" "image-pull-policy""#, r#""kube-system" "image-registry""#];
    assert_eq!(names, [system[0], system[1], r#""shop" "image-pull-policy""#]);
}

#[test]
fn audit_shows_the_enforcement_and_failed_evaluations() {
    let folder = TempDir::new().unwrap();
    let policies = folder.path().join("policies.yaml");
    let policy = |name: &str, enforcement: &str, rego: &str| {
        json!({"apiVersion": "policysync.kuadrant.io/v1alpha1", "kind": "RegoPolicy", "metadata": {"name": name},
            "spec": {"enforcement": enforcement, "rego": rego}})
    };
    let denies = "package admission\nimport rego.v1\ndeny contains {\"id\": \"a\", \"resource\": {\"kind\": \"pods\", \"namespace\": ns, \
        \"name\": name}} if { [\"pods\", ns, name, _] = input.reviewed }\n";
    let fails = "package admission\nimport rego.v1\ndeny contains {\"id\": \"b\", \"resource\": {\"kind\": \"services\", \"namespace\": \
        ns, \"name\": name}} if {\n [\"services\", ns, name, _] = input.reviewed\n numbers.range(1, 1000000)\n}\n";
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [policy("a", "dryrun", denies), policy("b", "deny", fails)]});
    std::fs::write(&policies, list.to_string()).unwrap();
    let ran = run(&["audit", "-f", "objects", "-p", policies.to_str().unwrap()]);
    let lines: Vec<&str> = ran.stdout.lines().skip(1).collect();
    assert_eq!((ran.code, lines.len()), (1, 2), "{ran:?}");
    assert!(lines[0].starts_with("dryrun        pods       shop        till   a    -"), "{ran:?}");
    assert!(
        lines[1].starts_with("error         services   shop        web    -    ")
            && lines[1].contains("numbers.range: the result is above its limit"),
        "{ran:?}"
    );
    // If the evaluation of a Rego policy fails and no other Rego policy denies the object, the result is unknown.
    std::fs::write(&policies, policy("b", "deny", fails).to_string()).unwrap();
    let ran = run(&["audit", "-f", "objects", "-p", policies.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (2, 2), "{ran:?}");
    assert_eq!(ran.stderr, "policy-sync: the audit is incomplete: results with enforcement error: 1\n");
}

#[test]
fn audit_without_violations_prints_a_message() {
    let namespace =
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {team: a, cost-center: b}}}";
    let ran = run_with(&["audit", "-f", "-", "-p", "policies"], namespace);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", "no violations\n"));
    let ran = run_with(&["audit", "-f", "-", "-p", "policies", "-o", "json"], namespace);
    assert_eq!(ran.code, 0);
    assert_eq!(
        serde_json::from_str::<Value>(&ran.stdout).unwrap(),
        json!({"message": "total violations:0", "violations": [], "truncated": false})
    );
    let ran = run_with(&["audit", "-f", "-", "-p", "policies"], "{kind: Namespace}");
    assert_eq!((ran.code, ran.stderr.as_str()), (2, "policy-sync: stdin:1: an object without apiVersion\n"));
}

#[test]
fn unreadable_document_leaves_the_others() {
    let expected = run(&FILES);
    let ran = run_with(&[&FILES[..], &["-f", "-"]].concat(), "a: 1\n---\nkind: Pod\nmetadata: {\n");
    assert_eq!((ran.code, ran.stdout), (2, expected.stdout), "{}", ran.stderr);
    let stderr_lines: Vec<&str> = ran.stderr.lines().collect();
    let [.., none, bad] = &stderr_lines[..] else { panic!("{}", ran.stderr) };
    assert_eq!(*none, "policy-sync: stdin:1: an object without apiVersion");
    assert!(bad.starts_with("policy-sync: stdin:4: document 2: unclosed bracket '{'"), "{}", ran.stderr);
}

#[test]
fn admit_query_selects_the_package() {
    let folder = TempDir::new().unwrap();
    let policy = folder.path().join("gates.rego");
    let text = "package gates\nimport rego.v1\ndeny contains {\"id\": \"a\", \"resource\": {\"kind\": \"pods\", \"namespace\": ns, \
        \"name\": name}} if {\n\tmatches[[\"pods\", ns, name, _]]\n}\nsample_a := {\"reviewed\": [\"pods\", \"a\", \"b\", {}]}\n";
    std::fs::write(&policy, text).unwrap();
    let policy = policy.to_str().unwrap();
    let query = "--admit-query=data.gates";
    let ran = run(&["audit", "-f", "objects", "-p", policy, query]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (1, 2), "{ran:?}");
    for command in ["check", "test"] {
        assert_eq!(run(&["rego", command, policy, query]).code, 0);
    }
    // Without `--admit-query`, the program does not evaluate the package `gates`, and `matches` is undeclared in it.
    let ran = run(&["rego", "check", policy]);
    assert_eq!(ran.code, 1, "{ran:?}");
}

#[test]
fn audit_of_files_prints_no_contents_of_secrets() {
    let folder = TempDir::new().unwrap();
    let secret = folder.path().join("secret.yaml");
    let manifest = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"},
        "data": {"password": "aHVudGVyMg=="}});
    std::fs::write(&secret, manifest.to_string()).unwrap();
    let audit = |rules: &str, more: &[&str]| {
        let policy = folder.path().join("p.rego");
        std::fs::write(&policy, format!("package admission\nimport rego.v1\n{rules}\n")).unwrap();
        let files = ["audit", "-f", secret.to_str().unwrap(), "-p", policy.to_str().unwrap()];
        run(&[&files[..], more].concat())
    };
    let tells = "deny contains msg if { msg := json.marshal(input.request.object) }";
    let ran = audit(tells, &[]);
    assert!(ran.code == 2 && ran.stdout.contains("the policy may read the contents of a Secret"), "{ran:?}");
    assert!(!format!("{ran:?}").contains("aHVudGVyMg"), "{ran:?}");
    let ran = audit(&tells.replace("{ msg", "{ input.request.kind.kind == \"Secret\"; msg"), &[]);
    assert!(ran.code == 1 && ran.stderr.contains("reads the contents of a Secret"), "{ran:?}");
    let ran = audit(tells, &["--replicate", "secrets"]);
    assert!(ran.code == 1 && ran.stdout.contains("aHVudGVyMg"), "{ran:?}");
    let fails = "deny contains msg if msg := input.request.object.data.password & {\"a\"}";
    let ran = audit(fails, &["--replicate", "secrets"]);
    assert!(ran.code == 2 && ran.stdout.contains("operand of the wrong type for &"), "{ran:?}");
    assert!(!format!("{ran:?}").contains("aHVudGVyMg"), "{ran:?}");
}

fn of_hub(kubeconfig: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = command(arguments);
    command.arg("--kubeconfig").arg(kubeconfig);
    finish(command, "")
}

#[tokio::test]
async fn absent_namespace_is_reported_and_missing_rights_are_unknown_at_once() {
    let crds = crds::for_cluster_type(crds::ClusterType::Hub, &binaries::ensure().await.unwrap()).unwrap();
    let options = ControlPlaneOptions { crds, ..ControlPlaneOptions::named("audit") };
    let hub = ControlPlane::start(options).await.unwrap();
    let ran = of_hub(hub.kubeconfig(), &["audit", "--rego-namespace", "default"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", "no violations\n"));
    for (arguments, option, absent) in [
        (
            &["audit", "--rego-namespace", "default", "--rego-namespace", "polices"][..],
            "--rego-namespace",
            "polices",
        ),
        (&["placement", "diff", "--rego-namespace", "polices"], "--rego-namespace", "polices"),
        (&["placement", "diff", "--rego-namespace", "default", "-n", "shpo"], "--namespace", "shpo"),
    ] {
        let ran = of_hub(hub.kubeconfig(), arguments);
        let says = format!("policy-sync: {option}: the hub at {} has no namespace {absent}\n", hub.url());
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr), (1, "", says));
    }

    // `--policy-namespace` is the deprecated name of `--rego-namespace`.
    let warns = "policy-sync: --policy-namespace is deprecated: use --rego-namespace\n";
    for arguments in
        [&["audit", "--policy-namespace", "default"][..], &["audit", "--policy-namespace=default"]]
    {
        let ran = of_hub(hub.kubeconfig(), arguments);
        assert_eq!((ran.code, ran.stderr), (0, format!("{warns}no violations\n")));
    }
    for arguments in
        [&["audit", "--policy-namespace=polices"][..], &["placement", "diff", "--policy-namespace=polices"]]
    {
        let ran = of_hub(hub.kubeconfig(), arguments);
        let says = format!(
            "{warns}policy-sync: --rego-namespace: the hub at {} has no namespace polices\n",
            hub.url()
        );
        assert_eq!((ran.code, ran.stderr), (1, says));
    }

    let nobody = hub.kubeconfig_for(&User::new("nobody")).unwrap();
    let started = Instant::now();
    let ran = of_hub(&nobody, &["audit", "--rego-namespace", "default"]);
    let says = "policy-sync: policies are unknown: cannot list configmaps in default: ";
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.starts_with(says) && ran.stderr.lines().count() == 1, "{ran:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
