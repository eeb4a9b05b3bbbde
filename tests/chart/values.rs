//! The values of the chart: Helm's schema in `values.schema.json` is generated from these types, and the
//! chart's `README.md` from the comments in `values.yaml`.

#![expect(dead_code, reason = "only the schema of these types is used")]

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use policy_sync_api::params::Params;
use policy_sync_testenv::binaries::chart_tools;
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value};

use crate::helm::chart;

type Object = Map<String, Value>;
type Labels = std::collections::BTreeMap<String, String>;

/// The values of the chart `policy-sync`.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct Values {
    /// Global values of an umbrella chart. This chart reads none of them.
    #[schemars(default)]
    global: Object,
    /// The `condition` of an umbrella chart. This chart does not read it.
    enabled: Option<bool>,
    image: Image,
    #[schemars(default)]
    image_pull_secrets: Vec<Object>,
    #[schemars(default)]
    name_override: String,
    #[schemars(default)]
    fullname_override: String,
    replicas: u32,
    controller: Controller,
    gateway_class: GatewayClass,
    rego: Rego,
    opa: Opa,
    placement: Placement,
    topology: Topology,
    crds: Crds,
    rbac: Rbac,
    service_account: ServiceAccount,
    #[schemars(default)]
    resources: Object,
    pod_disruption_budget: PodDisruptionBudget,
    #[schemars(default)]
    topology_spread_constraints: Vec<Object>,
    #[schemars(default)]
    node_selector: Labels,
    #[schemars(default)]
    tolerations: Vec<Object>,
    #[schemars(default)]
    affinity: Object,
    #[schemars(default)]
    priority_class_name: String,
    #[schemars(default)]
    pod_labels: Labels,
    #[schemars(default)]
    pod_annotations: Labels,
    #[schemars(default)]
    common_labels: Labels,
    pod_monitor: PodMonitor,
    prometheus_rule: PrometheusRule,
    dashboard: Dashboard,
    network_policy: NetworkPolicy,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Image {
    repository: String,
    #[schemars(default)]
    tag: String,
    #[schemars(default, regex(pattern = "^(sha256:[0-9a-f]{64})?$"))]
    digest: String,
    pull_policy: PullPolicy,
}

#[derive(JsonSchema)]
#[schemars(inline)]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Controller {
    name: Option<String>,
    downstream_namespace_prefix: Option<String>,
    reserved_namespaces: Option<Vec<String>>,
    status_window: Option<Duration>,
    lease_duration: Option<Duration>,
    log_level: LogLevel,
    #[schemars(default)]
    extra_args: Vec<String>,
    #[schemars(default)]
    extra_env: Vec<Object>,
}

/// As Kubernetes writes durations: `15s`, `500ms`, `1m30s`.
#[derive(JsonSchema)]
struct Duration(#[schemars(regex(pattern = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"))] String);

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", inline)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct GatewayClass {
    create: bool,
    name: String,
    parameters: Params,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Rego {
    enabled: bool,
    namespace: Option<RegoNamespace>,
    /// The deprecated name of `namespace`.
    policy_namespace: Option<RegoNamespace>,
    replicate: Option<Vec<String>>,
    #[schemars(regex(pattern = "^[1-9][0-9]{0,8}([KMG]i)?$"))]
    replicate_bytes: Option<String>,
    #[schemars(default)]
    kinds: Vec<PolicyKinds>,
    failure_policy: Option<FailurePolicy>,
    exempt_namespaces: Option<Vec<String>>,
    remediate: Option<Remediate>,
    allow_manual_remediation: Option<bool>,
    audit_interval: Option<Duration>,
    #[schemars(default)]
    certificate_secret: String,
    #[schemars(default)]
    authorize_token_secret: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Opa {
    sidecar: bool,
    image: OpaImage,
    #[schemars(default)]
    resources: Object,
    #[schemars(default, regex(pattern = "^(https?://.+)?$"))]
    url: String,
    #[schemars(default)]
    token_secret: String,
    #[schemars(default)]
    ca_secret: String,
    #[schemars(default)]
    certificate_secret: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct OpaImage {
    repository: String,
    #[schemars(default)]
    tag: String,
    #[schemars(default, regex(pattern = "^(sha256:[0-9a-f]{64})?$"))]
    digest: String,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Placement {
    #[schemars(default, regex(pattern = "^(https?://.+)?$"))]
    url: String,
    #[schemars(default)]
    token_secret: String,
    #[schemars(default)]
    ca_secret: String,
    #[schemars(default)]
    always: bool,
    resync: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct RegoNamespace {
    create: Option<bool>,
    #[schemars(regex(pattern = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    name: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", inline)]
enum Remediate {
    Automatic,
    Manual,
}

#[derive(JsonSchema)]
#[schemars(inline)]
enum FailurePolicy {
    Fail,
    Ignore,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Topology {
    enabled: bool,
    route_status: bool,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Crds {
    enabled: bool,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Rbac {
    create: bool,
    #[schemars(default)]
    policy_kinds: Vec<PolicyKinds>,
    tls_secrets: bool,
    #[schemars(default)]
    parameters_namespaces: Vec<String>,
}

/// Kinds of one API group.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyKinds {
    group: String,
    /// Plural names.
    #[schemars(length(min = 1))]
    resources: Vec<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct ServiceAccount {
    create: bool,
    #[schemars(default)]
    name: String,
    #[schemars(default)]
    annotations: Labels,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct PodDisruptionBudget {
    enabled: bool,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct PodMonitor {
    enabled: bool,
    #[schemars(default)]
    labels: Labels,
    interval: Duration,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct PrometheusRule {
    enabled: bool,
    #[schemars(default)]
    labels: Labels,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct Dashboard {
    enabled: bool,
    #[schemars(default)]
    labels: Labels,
    #[schemars(default)]
    annotations: Labels,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields, inline)]
struct NetworkPolicy {
    enabled: bool,
}

/// Checks that the file contains `text`; with `POLICY_SYNC_UPDATE`, writes the file first.
fn is_up_to_date(path: &Path, text: &str) -> Result<()> {
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        fs::write(path, text)?;
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    ensure!(written == text, "{} is out of date: set POLICY_SYNC_UPDATE=1 once", path.display());
    Ok(())
}

/// `POLICY_SYNC_UPDATE=1 cargo test --test chart values` updates the schema.
#[test]
fn schema_of_values_is_up_to_date() -> Result<()> {
    let schema = serde_json::to_string_pretty(&schema_for!(Values))?;
    is_up_to_date(&chart().join("values.schema.json"), &format!("{schema}\n"))
}

/// `POLICY_SYNC_UPDATE=1 cargo test --test chart values` also updates the README.
#[tokio::test]
async fn readme_of_the_chart_is_up_to_date() -> Result<()> {
    let output = Command::new(chart_tools().await?.helm_docs)
        .args(["--dry-run", "--skip-version-footer"])
        .args(["--log-level=warning", "--sort-values-order=file", "--chart-search-root"])
        .arg(chart())
        .output()
        .context("running helm-docs")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains("| image.repository | string |"), "no values are listed: {text}");
    let unexplained: Vec<_> = text.lines().filter(|line| line.ends_with("|  |")).collect();
    ensure!(unexplained.is_empty(), "without a comment: {unexplained:?}");
    is_up_to_date(&chart().join("README.md"), &text)
}

/// The binary, the image and the chart share a version number.
#[test]
fn chart_version_matches_the_binary() -> Result<()> {
    let chart: Value = serde_saphyr::from_str(&fs::read_to_string(chart().join("Chart.yaml"))?)?;
    for key in ["version", "appVersion"] {
        ensure!(chart[key] == env!("CARGO_PKG_VERSION"), "{key} is {}", chart[key]);
    }
    Ok(())
}
