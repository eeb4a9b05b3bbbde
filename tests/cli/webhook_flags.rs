//! The controller's messages about invalid flags for Rego and webhooks.

use std::fs;

use policy_sync_testenv::bad_input::{self, code};
use policy_sync_testenv::certificates::Authority;
use tempfile::TempDir;

use crate::run::run;

const URL: &str = "expected https://<host>[:<port>], without a path";
const ADDRESS: &str = "expected http(s)://<host>[:<port>][/<path>]";

/// A description of an error, the flags, and the message.
const FLAGS: [(&str, &str, &str); 27] = [
    ("webhooks without policies", "--webhook-name=a", ""),
    ("an invalid URL", "--webhook-url=a.b.svc", URL),
    ("a URL without TLS", "--webhook-url=http://a.b.svc", URL),
    ("a URL with a path", "--webhook-url=https://a.b.svc/placement", URL),
    ("a URL with a user", "--webhook-url=https://me@a.b.svc", URL),
    ("an invalid name", "--webhook-name=a/b", "expected a name of at most 55 characters: a-z, 0-9 and -"),
    ("an unknown failure policy", "--webhook-failure-policy=fail", "[possible values: Fail, Ignore]"),
    (
        "an invalid pattern of namespaces",
        "--exempt-namespaces=kube.*",
        "expected a namespace name, in which * matches any text",
    ),
    ("no namespace", "--rego-namespace=a/b", "expected a namespace name"),
    (
        "a namespace with a reserved name in `data`",
        "--rego-namespace=kubernetes",
        "data has other contents at this name: choose another namespace",
    ),
    (
        "an invalid package for placement",
        "--placement-query=data.a[0]",
        "expected data and a package, such as data.kubernetes.admission",
    ),
    (
        "an invalid package for admission",
        "--admit-query=admission",
        "expected data and a package, such as data.kubernetes.admission",
    ),
    (
        "one package for two purposes",
        "--admit-query=data.io.k8s.federation.admission",
        "--placement-query and --admit-query need packages of their own, neither of them authorization",
    ),
    ("an invalid resource", "--replicate=Pods!", "expected a resource, such as pods or deployments.apps"),
    (
        "a directory without a certificate",
        "--webhook-cert-dir=EMPTY",
        "cannot read EMPTY/tls.crt: No such file or directory (os error 2)",
    ),
    (
        "a key for another certificate",
        "--webhook-cert-dir=OTHER",
        "OTHER/tls.key is not the key of OTHER/tls.crt",
    ),
    (
        "a token file that does not exist",
        "--authorize-token-file=EMPTY/token",
        "cannot read EMPTY/token: No such file or directory (os error 2)",
    ),
    (
        "a file without a token",
        "--authorize-token-file=OTHER/empty",
        "OTHER/empty has no token: expected one token per line",
    ),
    (
        "a token that is too short",
        "--authorize-token-file=OTHER/short",
        "OTHER/short:1: no token: expected at least 16 printable characters without blanks",
    ),
    (
        "a token file together with an external engine",
        "--authorize-token-file=OTHER/short --placement-url=https://opa.example/v1/data",
        "cannot be used with",
    ),
    ("an invalid URL of OPA", "--opa-url=opa:8181", ADDRESS),
    ("a URL of OPA with a user", "--opa-url=https://me@opa.example", ADDRESS),
    (
        "a certificate for OPA without its key",
        "--opa-url=https://opa.example --opa-cert-file=OTHER/tls.crt",
        "the following required arguments were not provided",
    ),
    (
        "a key for another certificate, for OPA",
        "--opa-url=https://opa.example --opa-cert-file=OTHER/tls.crt --opa-key-file=OTHER/tls.key",
        "OTHER/tls.key is not the key of OTHER/tls.crt",
    ),
    (
        "a CA file for OPA without a certificate",
        "--opa-url=https://opa.example --opa-ca-file=OTHER/tls.key",
        "OTHER/tls.key has no certificate",
    ),
    ("an invalid URL of an external engine", "--placement-url=ftp://opa.example/v1/data", ADDRESS),
    (
        "an external engine and OPA",
        "--placement-url=https://opa.example/v1/data --opa-url=https://opa.example",
        "cannot be used with",
    ),
];

/// A kubeconfig for a hub that is not used.
const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
    clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: a, user: {token: a}}]}";

#[test]
fn messages_about_invalid_flags_are_documented() {
    let (empty, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let authority = Authority::new("a").unwrap();
    fs::write(other.path().join("tls.crt"), authority.server("a").unwrap().certificate).unwrap();
    fs::write(other.path().join("tls.key"), authority.server("b").unwrap().key).unwrap();
    fs::write(other.path().join("empty"), "\n").unwrap();
    fs::write(other.path().join("short"), "token\n").unwrap();
    let kubeconfig = empty.path().join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let folders = [("EMPTY", empty.path()), ("OTHER", other.path())];
    let mut table = "| error | flag | message |\n|---|---|---|\n".to_owned();
    for (what, flag, expected) in FLAGS {
        let mut argument = flag.to_owned();
        for (name, folder) in folders {
            argument = argument.replace(name, &folder.display().to_string());
        }
        let mut arguments = vec!["controller", &kubeconfig];
        arguments.extend(argument.split(' '));
        if what != "webhooks without policies" {
            arguments.push("--rego-namespace=policies");
        }
        let ran = run(&arguments);
        let mut stderr = ran.stderr.clone();
        for (name, folder) in folders {
            stderr = stderr.replace(&folder.display().to_string(), name);
        }
        assert_eq!(ran.code, 2, "{what}: {stderr}");
        assert!(stderr.contains(expected), "{what}: {stderr}");
        let message =
            if expected.is_empty() { "the following required arguments were not provided" } else { expected };
        assert!(stderr.contains(message), "{what}: {stderr}");
        table += &format!("| {what} | {} | {} |\n", code(flag), code(message));
    }
    bad_input::holds("webhook flags", &table).unwrap();
}

#[test]
fn controller_accepts_the_deprecated_name_of_a_flag_and_logs_a_warning() {
    let folder = TempDir::new().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    // Flags that require Rego are accepted and evaluated.
    let arguments = ["controller", &kubeconfig, "--policy-namespace=policies", "--webhook-cert-dir=nowhere"];
    let ran = run(&arguments);
    let log: Vec<&str> = ran.stderr.lines().collect();
    assert!(ran.code == 2 && log.len() == 2 && log[0].contains(r#""level":"WARN""#), "{ran:?}");
    assert!(log[0].contains("--policy-namespace is deprecated: use --rego-namespace"), "{ran:?}");
    assert!(log[1].starts_with("policy-sync: cannot read nowhere/tls.crt: "), "{ran:?}");
}

#[test]
fn both_names_of_a_flag_are_an_error() {
    for command in [&["controller"][..], &["audit"], &["placement", "diff"], &["placement", "apply"]] {
        for old in [&["--policy-namespace", "a"][..], &["--policy-namespace=a"]] {
            let ran = run(&[command, &["--rego-namespace=a"], old].concat());
            let says = "policy-sync: --policy-namespace is the deprecated name of --rego-namespace: use --rego-namespace \
                alone; see --help\n";
            assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (2, "", says));
        }
    }
}
