//! Determines which fields the installed ManifestWork supports, again after each change of its definition.

use kube::Client;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::DefaultBackoff;
use tracing::warn;

use super::resolve;
use super::versions::CHECK_INTERVAL;
use policy_sync_api::text::with_causes;
use policy_sync_api::work::GROUP;
use policy_sync_hub::watch::{CrdNotifications, Feed};
use policy_sync_sync::found::work_schema;

/// Reads which fields the hub's ManifestWork supports, again after each change of its definition. Never returns.
pub(crate) async fn follow_work_schema(client: Client, feed: Feed, mut definitions: CrdNotifications) {
    let name = format!("manifestworks.{GROUP}");
    let mut backoff = DefaultBackoff::default();
    loop {
        match resolve::work_schema(&client, &name).await {
            Ok(schema) => {
                backoff.reset();
                if !schema.feedback_scrape_type {
                    warn!("the hub's ManifestWork has no feedbackScrapeType: status from spokes is delayed");
                }
                if !schema.condition_rules {
                    warn!("the hub's ManifestWork has no conditionRules: status.ancestors is not reported");
                }
                feed.change(work_schema(schema));
                definitions.changed(&name).await;
            }
            Err(error) => {
                warn!(error = with_causes(&error), "cannot read the definition of ManifestWork");
                tokio::time::sleep(backoff.next().unwrap_or(CHECK_INTERVAL)).await;
            }
        }
    }
}
