//! The public state of the webhook configurations, for health checks and metrics.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::Gauge;
use serde_json::Value;
use tokio::sync::watch;

use super::entries::EntryInputs;
use super::index::{Index, View};
use super::key::Key;
use super::kinds::ConfigurationKind;
use super::rows::CertificateSecret;
use super::settings::{Authority, Settings};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::certificates::CertificateResolver;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_mirror::Mirror;

/// The state of the webhook configurations. Clones share it.
#[derive(Clone, Debug)]
pub struct WebhookConfigStatus(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) mirror: Arc<Mirror<Index>>,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) certificates: Arc<CertificateResolver>,
    pub(super) inputs: watch::Sender<EntryInputs>,
    /// Why a key is not up to date.
    pub(super) faults: Mutex<BTreeMap<Key, String>>,
}

impl WebhookConfigStatus {
    pub(super) fn new(
        controller: ControllerName,
        settings: Settings,
        clock: Clock,
        certificates: Arc<CertificateResolver>,
    ) -> Self {
        let mirror = Arc::new(Mirror::new(controller));
        let (inputs, faults) = (watch::channel(EntryInputs::default()).0, Mutex::default());
        Self(Arc::new(Shared { mirror, settings, clock, certificates, inputs, faults }))
    }

    /// Whether there is a certificate to serve, and the text of the health check, which has a line for each failing
    /// watch or write.
    #[must_use]
    pub fn health(&self) -> (bool, String) {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        let mut text = String::new();
        for (source, fault) in view.failing() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[!]webhooks: {source} failing: {fault}");
        }
        for (key, fault) in self.0.faults.lock().iter() {
            if !matches!(key, Key::Entries(_)) || !text.contains(fault.as_str()) {
                let _ = writeln!(text, "[!]webhooks: {fault}");
            }
        }
        let serves = self.0.certificates.expires().is_some();
        let is_ready = serves || self.0.is_ready_without_certificate(view);
        let _ = match (serves, is_ready) {
            (true, _) => writeln!(text, "[+]webhooks ok"),
            (false, true) => writeln!(text, "[!]webhooks: no certificate yet, and no webhook is registered"),
            (false, false) => writeln!(text, "[-]webhooks: no certificate yet"),
        };
        (is_ready, text)
    }

    /// Whether each watch is listed and not failing, by resource.
    #[must_use]
    pub fn watches(&self) -> BTreeMap<String, bool> {
        let guard = self.0.mirror.read();
        let view = guard.view(self.0.clock.now());
        let sources = super::kinds::wanted(&self.0.settings).into_keys();
        sources.map(|source| (source.label(), view.is_up(&source))).collect()
    }

    /// Updates the gauges of `metrics`.
    pub fn measure(&self, metrics: &WebhookConfigMetrics) {
        metrics.measure(self.0.certificates.expires(), self.0.clock.now());
    }
}

impl Shared {
    /// The CA bundle for `caBundle` (PEM); `None` if another controller injects it.
    ///
    /// # Errors
    ///
    /// If the bundle is not known yet, with the reason.
    pub(super) fn ca_bundle(&self, view: View<'_>) -> Result<Option<String>, String> {
        if self.certificates.expires().is_none() {
            let why = self.faults.lock().get(&Key::Certificate).cloned();
            return Err(why.unwrap_or_else(|| "there is no certificate yet".to_owned()));
        }
        match &self.settings.authority {
            Authority::File(authority) => Ok(authority.borrow().clone()),
            Authority::Own => {
                let kept = view.secret(&self.settings)?.filter(|kept| !kept.authorities.is_empty());
                kept.map(|kept| Some(kept.authorities.clone()))
                    .ok_or_else(|| "there is no certificate yet".to_owned())
            }
        }
    }

    /// Whether this process is ready although it has no certificate to serve. The leader issues the certificate. In a
    /// rollout, the leader may be an old process that keeps running until this process is ready. So this process is
    /// ready while no webhook is registered. It is also ready while the Secret is empty.
    fn is_ready_without_certificate(&self, view: View<'_>) -> bool {
        let has_no_entries = |kind: ConfigurationKind| {
            let stored = view.configuration(&self.settings, kind);
            stored.is_ok_and(|stored| stored.is_none_or(|stored| stored.entries.is_empty()))
        };
        let is_empty = |kept: &CertificateSecret| kept.authorities.is_empty() && kept.certificate.is_empty();
        ConfigurationKind::ALL.into_iter().all(has_no_entries)
            || matches!(view.secret(&self.settings), Ok(Some(kept)) if is_empty(kept))
    }

    /// Records why `key` is not up to date; `None` if `key` is up to date. Returns whether the reason has changed.
    pub(super) fn note(&self, key: &Key, fault: Option<String>) -> bool {
        let mut faults = self.faults.lock();
        let before = match fault.clone() {
            Some(fault) => faults.insert(key.clone(), fault),
            None => faults.remove(key),
        };
        before != fault
    }

    /// Why `key` is not up to date.
    pub(super) fn fault(&self, key: &Key) -> Option<String> {
        self.faults.lock().get(key).cloned()
    }

    /// Whether the configuration has an entry of this controller whose name begins with `of`. False if this is unknown.
    pub(super) fn has_entry(&self, kind: ConfigurationKind, of: &str) -> bool {
        let guard = self.mirror.read();
        let stored = guard.view(self.clock.now()).configuration(&self.settings, kind);
        let is_of =
            |(_, entry): &(usize, Value)| entry["name"].as_str().is_some_and(|name| name.starts_with(of));
        stored.is_ok_and(|stored| stored.is_some_and(|stored| stored.entries.iter().any(is_of)))
    }
}

/// Metrics of the webhook certificate. Every process sets them, because every process serves webhooks. Clones share the
/// values.
#[derive(Clone, Debug)]
pub struct WebhookConfigMetrics {
    expiry: Gauge,
}

impl WebhookConfigMetrics {
    /// Registers the metrics with `metrics`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let expiry = metrics.factory().seconds(
            "policy_sync_certificate_expiry_seconds",
            "Time until the certificate of the webhooks expires; 0 if it has expired or does not exist.",
        )?;
        Ok(Self { expiry })
    }

    fn measure(&self, expires: Option<Moment>, now: Moment) {
        self.expiry.set(expires.map_or(0.0, |at| at.since(now).as_secs_f64()));
    }
}
