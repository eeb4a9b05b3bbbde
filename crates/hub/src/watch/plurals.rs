//! Resolves plurals to resources as `kubectl` does. The first group in the server's discovery that has the plural is
//! chosen. In this group, the preferred version comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use kube::core::discovery::v2::APIGroupDiscovery;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tokio::sync::watch;
use tracing::warn;

use super::{CrdNotifications, Feed, with_response_timeout};
use policy_sync_api::names::GroupVersionResource;
use policy_sync_api::text::with_causes;
use policy_sync_mirror::SourceEvent;
use policy_sync_mirror::plurals::{RESOLVED_PLURALS, ResolvedPlural, plural_key, resolution};

/// The interval between two discoveries, for APIs that are not CustomResourceDefinitions.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(30);
/// The interval while a previously served plural is missing.
const MISSING_INTERVAL: Duration = Duration::from_secs(1);
/// Changes of definitions within this time cause one discovery.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// Resolves each plural in `wanted` and feeds the results to the mirror, until the sender is dropped. `aliases` maps a
/// plural to the name to resolve instead.
pub async fn resolve_plurals(
    mut wanted: watch::Receiver<BTreeSet<String>>,
    aliases: BTreeMap<String, String>,
    client: Client,
    feed: Feed,
    mut definitions: CrdNotifications,
) {
    let mut known: BTreeMap<String, ResolvedPlural> = BTreeMap::new();
    let mut missing: BTreeSet<String> = BTreeSet::new();
    let mut backoff = DefaultBackoff::default();
    loop {
        let now = wanted.borrow_and_update().clone();
        known.retain(|plural, _| {
            let stays = now.contains(plural);
            if !stays {
                feed.change(SourceEvent::Deleted {
                    source: RESOLVED_PLURALS.all(),
                    key: plural_key(plural),
                    version: 0,
                });
            }
            stays
        });
        let wait = match groups(&client).await {
            Ok(groups) => {
                backoff.reset();
                let before = std::mem::take(&mut missing);
                for plural in now {
                    let name = aliases.get(&plural).unwrap_or(&plural);
                    let served = served(&groups, name);
                    // A server that has just started, or that aggregates other servers, may lack some of its kinds at
                    // first. So a second discovery must confirm that a kind is missing.
                    let was_served = matches!(known.get(&plural), Some(ResolvedPlural::Resource(_)));
                    let is_confirmed = before.contains(&plural) && !groups.iter().any(is_stale);
                    if served == ResolvedPlural::NotServed && was_served && !is_confirmed {
                        missing.insert(plural);
                        continue;
                    }
                    feed.change(resolution(&plural, served.clone()));
                    known.insert(plural, served);
                }
                if missing.is_empty() { DISCOVERY_INTERVAL } else { MISSING_INTERVAL }
            }
            Err(error) => {
                let fault = with_causes(&error);
                warn!(error = fault, "cannot discover the kinds that the hub serves");
                // If discovery fails, known results remain valid.
                for plural in now.iter().filter(|plural| !known.contains_key(*plural)) {
                    feed.change(resolution(plural, ResolvedPlural::DiscoveryFailed(fault.clone())));
                }
                backoff.next().unwrap_or(DISCOVERY_INTERVAL)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = definitions.any_changed() => {
                tokio::time::sleep(DEBOUNCE).await;
                definitions.discard_pending();
            }
            changed = wanted.changed() => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

/// All API groups of the hub, the core group first.
async fn groups(client: &Client) -> Result<Vec<APIGroupDiscovery>, kube::Error> {
    let mut groups = with_response_timeout(client.list_core_api_versions_aggregated()).await?.items;
    groups.extend(with_response_timeout(client.list_api_groups_aggregated()).await?.items);
    Ok(groups)
}

/// Whether the aggregator could not reach the server of this group.
fn is_stale(group: &APIGroupDiscovery) -> bool {
    group.versions.iter().any(|version| version.freshness.as_deref() == Some("Stale"))
}

/// Resolves `name`, for example `pods` or `gateways.networking.istio.io`.
fn served(groups: &[APIGroupDiscovery], name: &str) -> ResolvedPlural {
    let (plural, of) = name.split_once('.').map_or((name, None), |(plural, group)| (plural, Some(group)));
    let kind = groups.iter().find_map(|group| {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.as_deref()).unwrap_or_default();
        if of.is_some_and(|of| of != name) {
            return None;
        }
        group.versions.iter().find_map(|version| {
            let is_it = |resource: &Option<String>| resource.as_deref() == Some(plural);
            let resolution = version.resources.iter().find(|served| is_it(&served.resource))?;
            let has = |verb: &str| resolution.verbs.iter().any(|resolution| resolution == verb);
            let gvr = GroupVersionResource::new(name, version.version.as_deref()?, plural);
            Some(if has("list") && has("watch") {
                ResolvedPlural::Resource(gvr)
            } else {
                ResolvedPlural::NotWatchable
            })
        })
    });
    kind.unwrap_or(ResolvedPlural::NotServed)
}

#[cfg(test)]
mod tests;
