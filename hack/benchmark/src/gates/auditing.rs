//! Reads the audit of a controller, on a hub with many pods.

use std::time::{Duration, Instant};

use anyhow::Result;
use policy_sync_testenv::apply::apply_all;
use policy_sync_testenv::rights::{audit_reader, token};
use policy_sync_testenv::webhooks;
use serde_json::Value;
use tokio::time::sleep_until;

use crate::hub::MeasuredHub;
use crate::rego_policies::Reviewer;

/// Lifetime of a cached audit, plus a margin.
const FRESH: Duration = Duration::from_millis(10_100);

/// Reads a controller's audit as a ServiceAccount.
pub(super) struct AuditReader {
    port: u16,
    authority: String,
    token: String,
    last: Option<Instant>,
}

impl AuditReader {
    /// Creates a ServiceAccount with the right to read audits.
    pub(super) async fn new(hub: &MeasuredHub, reviewer: &Reviewer, namespace: &str) -> Result<Self> {
        apply_all(&hub.client, &audit_reader(namespace, "reader")).await?;
        let token = token(&hub.client, namespace, "reader", &[]).await?;
        let (port, authority) = reviewer.webhooks()?;
        Ok(Self { port, authority, token, last: None })
    }

    /// Waits until the last response is no longer cached.
    pub(super) async fn until_stale(&self) {
        if let Some(last) = self.last {
            sleep_until((last + FRESH).into()).await;
        }
    }

    /// Requests an audit.
    pub(super) async fn read(&mut self) -> Result<Value> {
        let answer = webhooks::audit(self.port, &self.authority, &self.token).await?;
        self.last = Some(Instant::now());
        Ok(answer)
    }
}
