//! The test writes the conditions that Kuadrant's operator writes. Each condition must lead to the right state, count
//! in the summary, and exit code.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use kube::Client;
use kube::api::{Patch, PatchParams};
use policy_sync_api::annotations::{Summary, Synced};
use policy_sync_api::policy_state::PolicyState;
use policy_sync_testenv::apply::{api_for, apply};
use policy_sync_testenv::fixtures::{gateway, rate_limit_policy};
use policy_sync_testenv::{Fleet, FleetOptions, Tenant, wait};
use serde_json::{Value, json};

use crate::{LIMIT, downstream, until_copied};

const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");

/// Creates the definition of one of Kuadrant's policy kinds, unless the published definition exists.
async fn define(client: &Client, (group, plural, kind): (&str, &str, &str)) -> Result<()> {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let reference = ["group", "kind", "name"].map(|key| (key.to_owned(), json!({"type": "string"})));
    let reference = json!({"type": "object", "properties": serde_json::Map::from_iter(reference)});
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"targetRef": reference}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}});
    let name = format!("{plural}.{group}");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}],
        },
    });
    let (definitions, _) = api_for(client, &definition).await?;
    if definitions.get_opt(&name).await?.is_none() {
        apply(client, &definition).await?;
    }
    wait::until(&format!("{name} is served"), LIMIT, || async {
        let found = definitions.get(&name).await?;
        let conditions = found.data["status"]["conditions"].as_array().into_iter().flatten();
        let mut established = conditions.filter(|found| found["type"] == "Established");
        ensure!(established.any(|found| found["status"] == "True"), "{found:?}");
        Ok(())
    })
    .await
}

fn policy(kind: &str, tenant: &str, name: &str) -> Value {
    let mut policy = rate_limit_policy(tenant, name, "web");
    policy["kind"] = kind.into();
    if let Some(spec) = policy["spec"].as_object_mut() {
        spec.remove("limits");
    }
    if kind == "TLSPolicy" {
        policy["spec"]["issuerRef"] = json!({"name": "issuer"});
    }
    policy
}

/// A condition of the first generation.
fn condition(name: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": name, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// A hub, and a spoke on which the test plays the policy controller.
struct PlayedController<'f> {
    tenant: Tenant<'f>,
    spoke: Client,
}

impl PlayedController<'_> {
    async fn status(&self, object: &Value, status: Value) -> Result<()> {
        until_copied(&self.spoke, object, |_| true).await?;
        let (api, name) = api_for(&self.spoke, &downstream(object)).await?;
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&name, &PatchParams::default(), &patch).await.context("patching the status")?;
        Ok(())
    }

    /// Writes `conditions` to the copy of `policy`, and waits until the hub reports `state`.
    async fn reports(
        &self,
        policy: &Value,
        conditions: &[Value],
        state: PolicyState,
    ) -> Result<(Synced, Summary)> {
        self.status(policy, json!({"conditions": conditions, "observedGeneration": 1})).await?;
        let is =
            |entries: &[Synced], _: &Summary| matches!(entries, [entry] if PolicyState::of(entry) == state);
        let (mut entries, summary) = self.tenant.until_folded(policy, is).await?;
        Ok((entries.remove(0), summary))
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(BINARY);
        command.args(arguments).args(["--controller-name", &self.tenant.controller_name()]);
        Ok(command.arg("--kubeconfig").arg(self.tenant.hub().kubeconfig()).output()?)
    }

    /// The exit code of `status policies -A`, and the row of the policy `name`.
    fn shown(&self, name: &str) -> Result<(Option<i32>, String)> {
        let output = self.run(&["status", "policies", "-A"])?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let row = text.lines().find(|line| line.split_whitespace().any(|word| word == name));
        Ok((output.status.code(), row.with_context(|| format!("{output:?}"))?.to_owned()))
    }
}

#[tokio::test]
async fn kuadrants_conditions_give_the_right_state_count_and_exit_code() -> Result<()> {
    let options = FleetOptions { policy_controllers: false, ..FleetOptions::spokes(["eu-1"]) };
    let fleet = Fleet::start(options).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    for client in [&fleet.hub().client()?, &spoke] {
        define(client, ("kuadrant.io", "dnspolicies", "DNSPolicy")).await?;
        define(client, ("kuadrant.io", "tlspolicies", "TLSPolicy")).await?;
    }
    let tenant = Tenant::new(fleet.hub(), Path::new(BINARY), "reports", &["eu-1"]).await?;
    let kinds = ["ratelimitpolicies", "dnspolicies", "tlspolicies"]
        .map(|resource| json!({"group": "kuadrant.io", "version": "v1", "resource": resource}));
    tenant
        .parameters(&json!({"policiesToSync": kinds, "policyWaitSeconds": 0, "policyWaitAction": "serve"}))
        .await?;
    let web = gateway(tenant.name(), "web", tenant.name(), None);
    let listeners = json!({"spec": {"listeners": [{"name": "http", "port": 80, "protocol": "HTTP", "hostname": "shop.example.com"}]}});
    tenant.merge(&web, &listeners).await?;
    let _controller = tenant.controller().await?;
    let played = PlayedController { tenant, spoke };
    let accepted = condition("Accepted", "True", "Accepted", "accepted");
    let enforced = |message: &str| condition("Enforced", "True", "Enforced", message);

    // The spoke's own policy is older than the copy.
    let dns = policy("DNSPolicy", played.tenant.name(), "dns");
    played.tenant.apply(&dns).await?;
    let conflicted =
        condition("Accepted", "False", "Conflicted", "DNSPolicy is conflicted by kuadrant-reports/own");
    let (entry, summary) = played.reports(&dns, &[conflicted], PolicyState::Rejected).await?;
    let expected = Summary { clusters: 1, applied: 1, synced: true, rejected: 1, ..Summary::default() };
    ensure!(summary == expected, "{summary:?}");
    let reported_condition = entry.condition("Accepted").context("no condition Accepted")?;
    ensure!(reported_condition.reason.as_deref() == Some("Conflicted"), "{entry:?}");
    ensure!(
        reported_condition.message.as_deref() == Some("DNSPolicy is conflicted by kuadrant-reports/own"),
        "{entry:?}"
    );
    let (code, row) = played.shown("dns")?;
    ensure!(
        code == Some(1) && row.contains("eu-1: Rejected: ") && row.contains("Conflicted"),
        "{code:?} {row}"
    );

    // Fields that are specific to DNSPolicies.
    let unhealthy = condition("SubResourcesHealthy", "False", "Unhealthy", "not all records are healthy");
    let fault = condition("Healthy", "False", "HealthChecksFailed", "no answer from 10.0.0.1");
    played
        .status(
            &dns,
            json!({
                "conditions": [&accepted, &enforced("DNSPolicy has been successfully enforced"), unhealthy],
                "observedGeneration": 1, "totalRecords": 1,
                "recordConditions": {"shop.example.com": [fault]},
            }),
        )
        .await?;
    let fields = json!({
        "subResourcesHealthy": "False", "subResourcesHealthyReason": "Unhealthy",
        "subResourcesHealthyMessage": "not all records are healthy", "totalRecords": 1,
        "recordConditions.shop.example.com.reason": "HealthChecksFailed",
        "recordConditions.shop.example.com.message": "no answer from 10.0.0.1",
    });
    played
        .tenant
        .until_folded(&dns, |entries, _| entries.len() == 1 && json!(entries[0].fields) == fields)
        .await?;
    let (code, row) = played.shown("dns")?;
    ensure!(code == Some(0), "{code:?} {row}");

    let tls = policy("TLSPolicy", played.tenant.name(), "tls");
    played.tenant.apply(&tls).await?;
    let invalid =
        condition("Accepted", "False", "Invalid", "TLSPolicy target is invalid: unable to find issuer");
    let (_, summary) = played.reports(&tls, &[invalid], PolicyState::Rejected).await?;
    ensure!(summary.rejected == 1 && summary.not_enforced == 0, "{summary:?}");
    let (code, row) = played.shown("tls")?;
    ensure!(
        code == Some(1) && row.contains("Invalid") && row.contains("unable to find issuer"),
        "{code:?} {row}"
    );
    played
        .reports(
            &tls,
            &[accepted.clone(), enforced("TLSPolicy has been successfully enforced")],
            PolicyState::Enforced,
        )
        .await?;

    let limits = rate_limit_policy(played.tenant.name(), "limits", "web");
    played.tenant.apply(&limits).await?;
    let missing = condition("Enforced", "False", "MissingResource", "no Limitador is there");
    let (_, summary) =
        played.reports(&limits, &[accepted.clone(), missing], PolicyState::NotEnforced).await?;
    ensure!(summary.not_enforced == 1 && summary.enforced == 0, "{summary:?}");
    let (code, row) = played.shown("limits")?;
    ensure!(
        code == Some(1) && row.contains("eu-1: NotEnforced: ") && row.contains("MissingResource"),
        "{code:?} {row}"
    );

    // The spoke has its own policy for one of two routes.
    let partly = enforced("RateLimitPolicy has been partially enforced");
    let (_, summary) =
        played.reports(&limits, &[accepted.clone(), partly], PolicyState::PartiallyEnforced).await?;
    ensure!(summary.partial == 1, "{summary:?}");
    let (code, row) = played.shown("limits")?;
    ensure!(
        code == Some(1) && row.contains("eu-1: PartiallyEnforced: ") && row.contains("partially enforced"),
        "{code:?} {row}"
    );
    let whole = enforced("RateLimitPolicy has been successfully enforced");
    let (_, summary) = played.reports(&limits, &[accepted, whole], PolicyState::Enforced).await?;
    ensure!(summary.partial == 0 && summary.enforced == 1, "{summary:?}");
    let (code, row) = played.shown("limits")?;
    ensure!(code == Some(0), "{code:?} {row}");

    // A Gateway and its listener name the policies that affect them.
    let affected = |kind: &str, name: &str| {
        let message = format!("Object affected by {kind} [kuadrant-reports/{name}]");
        condition(&format!("kuadrant.io/{kind}Affected"), "True", "Accepted", &message)
    };
    let listener = json!({
        "name": "http", "attachedRoutes": 0, "supportedKinds": [], "conditions": [affected("DNSPolicy", "dns")],
    });
    let conditions = [affected("RateLimitPolicy", "limits"), affected("AuthPolicy", "local")];
    played.status(&web, json!({"conditions": conditions, "listeners": [listener]})).await?;
    wait::until("the status of the Gateway is reported", LIMIT, || async {
        let output = played.run(&["status", "cluster", "eu-1", "-o", "json"])?;
        let shown: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
        let expected = json!({
            "RateLimitPolicyAffected": "Object affected by RateLimitPolicy [kuadrant-reports/limits]",
            "listeners.http.DNSPolicyAffected": "Object affected by DNSPolicy [kuadrant-reports/dns]",
        });
        let items = shown["items"].as_array().context("no items")?;
        ensure!(items.iter().any(|item| item["fields"] == expected), "{shown}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn generated_policy_is_traced_to_its_plan_policy_on_the_hub() -> Result<()> {
    const EXTENSIONS: &str = "extensions.kuadrant.io";
    let options = FleetOptions { policy_controllers: false, ..FleetOptions::spokes(["eu-1"]) };
    let fleet = Fleet::start(options).await?;
    let spoke = fleet.spoke("eu-1")?.client()?;
    for client in [&fleet.hub().client()?, &spoke] {
        define(client, (EXTENSIONS, "planpolicies", "PlanPolicy")).await?;
    }
    let tenant = Tenant::new(fleet.hub(), Path::new(BINARY), "plans", &["eu-1"]).await?;
    let kinds = [("kuadrant.io", "ratelimitpolicies"), (EXTENSIONS, "planpolicies")]
        .map(|(group, resource)| json!({"group": group, "version": "v1", "resource": resource}));
    tenant
        .parameters(&json!({"policiesToSync": kinds, "policyWaitSeconds": 0, "policyWaitAction": "serve"}))
        .await?;
    let _controller = tenant.controller().await?;
    let played = PlayedController { tenant, spoke };
    let mut plan = policy("PlanPolicy", played.tenant.name(), "plan");
    plan["apiVersion"] = format!("{EXTENSIONS}/v1").into();
    played.tenant.apply(&plan).await?;
    until_copied(&played.spoke, &plan, |_| true).await?;
    // A RateLimitPolicy as Kuadrant's extension generates it from the PlanPolicy.
    apply(&played.spoke, &downstream(&rate_limit_policy(played.tenant.name(), "plan", "web"))).await?;
    let limits = rate_limit_policy(played.tenant.name(), "limits", "web");
    played.tenant.apply(&limits).await?;
    let says = "RateLimitPolicy is overridden by [kuadrant-plans/plan]";
    let overridden = condition("Enforced", "False", "Overridden", says);
    played.reports(&limits, &[overridden], PolicyState::Overridden).await?;

    let made = "it is overridden by policies that the cluster's controller generated from PlanPolicy plans/plan of the hub";
    let explained = played.run(&["explain", "ratelimitpolicy", "limits", "-n", "plans", "-o", "json"])?;
    ensure!(explained.status.code() == Some(0), "{explained:?}");
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    ensure!(text.contains(made), "{text}");
    let effective = played.run(&["effective", "--clusters", "-n", "plans", "-o", "json"])?;
    let json: Value = serde_json::from_slice(&effective.stdout).with_context(|| format!("{effective:?}"))?;
    let policies = json["answers"][0]["policies"].as_array().with_context(|| json.to_string())?;
    let is_named = |policy: &Value| {
        policy["reason"] == "Overridden" && policy["message"].as_str().is_some_and(|text| text.contains(made))
    };
    ensure!(policies.iter().any(is_named), "{json}");
    Ok(())
}
