//! Invalid arguments and kubeconfigs with their messages.

/// Invalid arguments, and the message for each.
pub(super) const USAGE: [(&[&str], &str); 35] = [
    (&["nothing"], "unrecognized subcommand 'nothing'"),
    (&["--nothing", "status"], "unexpected argument '--nothing' found"),
    (
        &["status", "--contxt", "a"],
        "unexpected argument '--contxt' found; tip: a similar argument exists: '--context'",
    ),
    (&["status", "--kubeconfig"], "a value is required for '--kubeconfig <FILE>' but none was supplied"),
    (&["status", "a", "b", "c"], "unexpected argument 'c' found"),
    (
        &["status", "-o", "csv"],
        "invalid value 'csv' for '--output <OUTPUT>' [possible values: table, wide, json, yaml]",
    ),
    (&["status", "-A", "-n", "shop"], "'--all-namespaces' cannot be used with '--namespace <NAMESPACE>'"),
    (&["status", "--controller-name", ""], "--controller-name must not be empty"),
    (&["params", "chek"], "unrecognized subcommand 'chek'; tip: a similar subcommand exists: 'check'"),
    (&["params", "check"], "the following required arguments were not provided: <FILE|->"),
    (&["params", "check", "-", "-o", "wide"], "invalid value 'wide' for '--output <OUTPUT>'"),
    (&["params", "check", "-", "--controller-name", ""], "--controller-name must not be empty"),
    (&["plan"], "the following required arguments were not provided: --filename <FILE|DIR|->"),
    (
        &["plan", "-f", "shop", "-o", "wide"],
        "invalid value 'wide' for '--output <OUTPUT>' [possible values: yaml, json, table]",
    ),
    (&["plan", "-f", "shop", "-o", "table"], "-o table requires --diff"),
    (&["plan", "-f", "shop", "--diff"], "'--filename <FILE|DIR|->' cannot be used with '--diff'"),
    (&["plan", "--diff", "-n", "shop"], "'--diff' cannot be used with '--namespace <NAMESPACE>'"),
    (&["plan", "-f", "shop", "--controller-name", ""], "--controller-name must not be empty"),
    (&["plan", "--diff", "--controller-name", ""], "--controller-name must not be empty"),
    (
        &["plan", "--diff", "--downstream-namespace-prefix", "A"],
        "--downstream-namespace-prefix \"A\" is not a valid prefix of namespace names",
    ),
    (&["controller", "shop"], "unexpected argument 'shop' found"),
    (&["controller", "--controller-name", ""], "--controller-name must not be empty"),
    (
        &["controller", "--downstream-namespace-prefix", ""],
        "--downstream-namespace-prefix \"\" is not a valid prefix of namespace names",
    ),
    (
        &["controller", "--status-window", "soon"],
        "invalid value 'soon' for '--status-window <DURATION>': expected a duration such as 15s or 500ms",
    ),
    (&["controller", "--status-window=-1"], "invalid value '-1' for '--status-window <DURATION>'"),
    (&["controller", "--status-window=11m"], "expected a duration between 0ns and 600s"),
    (&["controller", "--log-level", "loud"], "invalid value 'loud' for '--log-level <LEVEL>'"),
    (&["controller", "--leader-elect=perhaps"], "invalid value 'perhaps' for '--leader-elect[=<BOOL>]'"),
    (&["controller", "--leader-elect-lease-duration", "2"], "expected a duration between 3s and 3600s"),
    (&["controller", "--leader-elect-lease-duration", "2h"], "expected a duration between 3s and 3600s"),
    (&["controller", "--leader-elect-lease-duration", "3500ms"], "expected whole seconds"),
    (
        &["controller", "--leader-elect-lease-duration"],
        "a value is required for '--leader-elect-lease-duration <DURATION>'",
    ),
    (&["controller", "--metrics-bind-address", "here"], "\"here\" is not an address such as 127.0.0.1:8080"),
    (
        &["controller", "--health-probe-bind-address", ":99999"],
        "\":99999\" is not an address such as 127.0.0.1:8080",
    ),
    (&["status", "--context", "a\n\u{1b}[31m", "--odd\n\u{1b}[31m"], "unexpected argument '--odd"),
];

/// Unusable kubeconfigs, and the message for each. `None` is a file that does not exist.
pub(super) const KUBECONFIGS: [(&str, Option<&str>, &str); 10] = [
    ("missing", None, "cannot read kubeconfig missing: No such file or directory"),
    ("no-yaml", Some("clusters: ["), "cannot read kubeconfig no-yaml: failed to parse kubeconfig YAML"),
    ("empty", Some(""), "kubeconfig empty: failed to determine current context"),
    (
        "another-object",
        Some("kind: ConfigMap"),
        "kubeconfig another-object: failed to determine current context",
    ),
    (
        "no-current-context",
        Some("{CLUSTER, USER, contexts: [{name: hub, context: {cluster: hub, user: me}}]}"),
        "failed to determine current context",
    ),
    (
        "no-such-context",
        Some("{CLUSTER, USER, current-context: other}"),
        "kubeconfig no-such-context: failed to load current context: other",
    ),
    (
        "no-such-cluster",
        Some("{USER, CONTEXT}"),
        "kubeconfig no-such-cluster: failed to load the cluster of context: hub",
    ),
    (
        "no-url",
        Some("{clusters: [{name: hub, cluster: {server: ':::'}}], USER, CONTEXT}"),
        "kubeconfig no-url: failed to parse cluster url",
    ),
    (
        "no-certificate",
        Some(
            "{CLUSTER, CONTEXT, users: [{name: me, user: {client-certificate: /nowhere.crt, client-key: /nowhere.key}}]}",
        ),
        "/nowhere.crt",
    ),
    (
        "no-login",
        Some(
            "{CLUSTER, CONTEXT, users: [{name: me, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere, interactiveMode: Never}}}]}",
        ),
        "unable to run auth exec",
    ),
];
