//! `policy-sync status cluster NAME`: everything of ours on one cluster, or to be there, as its works say.

use anyhow::bail;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::found::{Asked, Found};
use super::hub::{Hub, Selection};
use super::shown::Shown;
use super::spoke::Spoke;
use super::view::{Rows, View};
use super::watch::{self, Seen};
use super::{Arguments, Format};
use crate::api::names::ControllerName;
use crate::cli::Answer;
use crate::cli::live::is_forbidden;
use crate::cli::output::{self, print, say};
use crate::cli::silence::silent_since;
use crate::cli::text::printable;

/// Shows what is on the cluster that `arguments` name: fine where all of it is as it should be.
pub(super) async fn answer(
    hub: &Hub,
    controller: &ControllerName,
    arguments: &Arguments,
) -> anyhow::Result<Answer> {
    let Some(name) = &arguments.name else { bail!("which cluster? status cluster NAME") };
    if arguments.cluster.is_some() || arguments.namespace.is_some() {
        bail!("status cluster NAME shows all that is on one cluster: leave --cluster and -n out");
    }
    let mut unread = Vec::new();
    let silent = match hub.cluster(name).await {
        Ok(Some(cluster)) => silent_since(&cluster),
        Ok(None) => {
            say(printable(&format!("the hub has no ManagedCluster {name}")));
            return Ok(Answer::No);
        }
        Err(error) => {
            let failure = hub.failure(&format!("read ManagedCluster {name}"), &error);
            if !is_forbidden(&error) {
                return Err(failure);
            }
            unread.push(failure.to_string());
            None
        }
    };
    let mut spoke = Spoke::new(controller.clone(), name);
    let works = hub.works(name, &spoke.selector()).await;
    let works =
        works.map_err(|error| hub.failure(&format!("list ManifestWorks of cluster {name}"), &error))?;
    spoke.list_works(&works);
    let selection = Selection { namespace: None, name: None };
    let mut found = Found::read(hub, controller, Asked::Cluster, selection, "").await?;
    unread.append(&mut found.unread);
    for fault in &found.faults {
        say(printable(&format!("error: {fault}")));
    }
    for item in &found.items {
        spoke.take(&item.key(), Some(item));
    }
    if let Some(since) = silent {
        say(printable(&format!("cluster {name}: its agent is silent since {since}")));
    }
    let items = spoke.items();
    if items.is_empty() {
        say(printable(&format!("nothing of {} is on cluster {name}", controller.as_str())));
    }
    let wide = arguments.output == Format::Wide;
    let view = View { rows: Rows::Policies, namespaces: true, wide, differences: None };
    if arguments.watch {
        if !unread.is_empty() {
            say(printable(&unread.join("; ")));
        }
        let watched = found.watched(Some(&spoke));
        let seen = Seen { gateways: found.gateways, spoke: Some(spoke), ..Seen::default() };
        let shown = Shown::new(view, arguments.output, arguments.redraws());
        return watch::watch(hub, &watched, selection, shown, items, seen).await.map(|()| Answer::Fine);
    }
    let fine = found.faults.is_empty() && silent.is_none() && items.iter().all(|item| view.in_sync(item));
    let list = || {
        let items: Vec<Value> = items.iter().map(|item| view.json(item)).collect();
        let silent = silent.map(|since| since.to_string());
        json!({"cluster": {"name": name, "silentSince": silent, "inSync": fine}, "items": items})
    };
    match arguments.output {
        Format::Json => print(&output::json(&list())?)?,
        Format::Yaml => print(&output::yaml(&list())?)?,
        Format::Table | Format::Wide if items.is_empty() => {}
        Format::Table | Format::Wide => print(&view.tables(&items, Timestamp::now()))?,
    }
    crate::cli::answer(fine, &unread)
}
