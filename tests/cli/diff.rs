//! `policy-sync plan --diff`: the controller then makes exactly the printed changes, and the command itself
//! writes nothing.

mod reading;
mod waits;
mod writes;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use policy_sync_testenv::audit::Request;
use policy_sync_testenv::fixtures::rate_limit_policy;
use policy_sync_testenv::{Fleet, Tenant};
use serde_json::Value;

use crate::run::{CommandOutput, command, finish};

/// Creates a tenant on the hub that all tests share.
async fn tenant(name: &str, clusters: &[&str]) -> Result<Tenant<'static>> {
    let fleet = Fleet::shared_hub().await?;
    Tenant::new(fleet.hub(), Path::new(env!("CARGO_BIN_EXE_policy-sync")), name, clusters).await
}

/// A tenant with the RateLimitPolicy `limits`. A controller has synced the policy, and no longer runs.
async fn synced(name: &str, clusters: &[&str]) -> Result<(Tenant<'static>, Value)> {
    let tenant = tenant(name, clusters).await?;
    let limits = rate_limit_policy(tenant.name(), "limits", "web");
    tenant.apply(&limits).await?;
    let controller = tenant.controller().await?;
    tenant.until_folded(&limits, |entries, _| entries.len() == clusters.len()).await?;
    tenant.settled(&controller).await?;
    controller.terminate().await?;
    Ok((tenant, limits))
}

fn diff_as(kubeconfig: &Path, tenant: &Tenant<'_>, arguments: &[&str]) -> CommandOutput {
    let mut command = command(&["plan", "--diff", "--controller-name", &tenant.controller_name()]);
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    finish(command, "")
}

fn diff(tenant: &Tenant<'_>, arguments: &[&str]) -> CommandOutput {
    diff_as(tenant.hub().kubeconfig(), tenant, arguments)
}

/// `name` without the hash at the end of a work's name.
fn readable(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((readable, hash)) if hash.len() == 32 => readable,
        _ => name,
    }
}

/// The changes in a report: `create ManifestWork eu-1/gateway-web`.
fn changes(list: &Value) -> Vec<String> {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let change = |item: &Value| {
        let (namespace, name) = (text(item, "namespace"), text(item, "name"));
        let place = if namespace.is_empty() { namespace } else { format!("{namespace}/") };
        format!("{} {} {place}{}", text(item, "action"), text(item, "kind"), readable(&name))
    };
    list["items"].as_array().unwrap().iter().map(change).collect()
}

/// The changes in a report as requests: `create manifestworks eu-1/<name>`.
fn requests(list: &Value) -> BTreeSet<String> {
    let request = |item: &Value| {
        let verb = match item["action"].as_str().unwrap() {
            "change" => "patch",
            verb => verb,
        };
        let resource = match item["kind"].as_str().unwrap() {
            "GatewayClass" => "gatewayclasses".to_owned(),
            kind => kind.to_lowercase().replace("policy", "policie") + "s",
        };
        let [namespace, name] = ["namespace", "name"].map(|field| item[field].as_str().unwrap());
        format!("{verb} {resource} {namespace}/{name}")
    };
    list["items"].as_array().unwrap().iter().map(request).collect()
}

/// The requests of the controller in the form of [`requests`]. Patches of works that are created or deleted are
/// left out: an access work, for example, changes while other works are created.
fn sent(writes: &[Request]) -> BTreeSet<String> {
    let write = |write: &Request| {
        let object = write.object();
        format!("{} {} {}/{}", write.verb, object.resource, object.namespace, object.name)
    };
    let all: BTreeSet<String> = writes.iter().map(write).collect();
    let on_the_way = |write: &String| {
        let object = write.strip_prefix("patch ");
        object.is_some_and(|object| {
            ["create", "delete"].iter().any(|verb| all.contains(&format!("{verb} {object}")))
        })
    };
    all.iter().filter(|write| !on_the_way(write)).cloned().collect()
}

/// Checks that the command reports the expected changes, that the controller then makes exactly these changes,
/// and that no differences remain.
async fn check_predicted_changes(tenant: &Tenant<'_>, expected: &[&str]) -> Result<CommandOutput> {
    let (text, list) = (diff(tenant, &[]), diff(tenant, &["-o", "json"]));
    ensure!((text.code, text.stderr.as_str()) == (1, ""), "{text:?}");
    ensure!((list.code, list.stderr.as_str()) == (1, ""), "{list:?}");
    let list: Value = serde_json::from_str(&list.stdout)?;
    ensure!(changes(&list) == expected, "{:#?}", changes(&list));

    let controller = tenant.controller().await?;
    let writes = tenant.settled(&controller).await?;
    ensure!(sent(&writes) == requests(&list), "planned {:#?}, sent {:#?}", requests(&list), sent(&writes));
    let settled = diff(tenant, &[]);
    ensure!((settled.code, settled.stdout.as_str(), settled.stderr.as_str()) == (0, "", ""), "{settled:?}");
    controller.terminate().await?;
    Ok(text)
}

/// The removed and added lines of a diff, without indentation.
fn edits(text: &str) -> Vec<String> {
    let mut edits = Vec::new();
    for line in text.lines() {
        match line.split_at_checked(1) {
            Some((sign @ ("-" | "+"), edit)) if !line.starts_with("---") && !line.starts_with("+++") => {
                edits.push(format!("{sign} {}", edit.trim()));
            }
            Some((" " | "@" | "-" | "+", _)) | None => {}
            Some(_) => edits.push(readable(line).to_owned()),
        }
    }
    edits
}
