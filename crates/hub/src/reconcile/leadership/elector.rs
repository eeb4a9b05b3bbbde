//! Takes, renews and releases the Lease.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::record::{self, ObservedLease};
use super::{Leadership, TermSender};
use crate::clock::Clock;
use policy_sync_api::text::with_causes;

/// The longest interval between two reads of another process's Lease.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which the readiness of this process is checked.
const READINESS_INTERVAL: Duration = Duration::from_millis(50);

/// The Lease, and how long it is valid.
#[derive(Clone, Debug)]
pub struct ElectorOptions {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// How long the Lease is valid after its last renewal, in whole seconds.
    pub duration: Duration,
}

/// Takes part in leader election until it is stopped.
#[derive(Debug)]
pub struct Elector {
    leases: Api<Lease>,
    options: ElectorOptions,
    identity: String,
    clock: Clock,
    terms: TermSender,
    observed: ObservedLease,
    /// The Lease as this process last wrote it.
    held: Option<Lease>,
    /// The last logged error, so that a repeated error is not logged again.
    last_error: Option<String>,
}

/// Why an attempt to take or renew the Lease failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no response in time")]
    Timeout,
    #[error("request failed: {0}")]
    Request(#[from] kube::Error),
}

impl LeaseError {
    /// Whether the API server has a newer Lease, or no Lease.
    fn is_outdated(&self) -> bool {
        matches!(self, Self::Request(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
    }
}

impl Elector {
    /// An elector, and the leadership that it determines.
    #[must_use]
    pub fn new(client: Client, options: ElectorOptions, clock: Clock) -> (Self, Leadership) {
        let (terms, leadership) = TermSender::new();
        // Two processes with the same identity would both lead, and two pods with the same name can exist at the same
        // time. A random suffix makes the identity unique.
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "policy-sync".to_owned());
        let identity = format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()));
        let elector = Self {
            leases: Api::namespaced(client, &options.namespace),
            options,
            identity,
            clock,
            terms,
            observed: ObservedLease::default(),
            held: None,
            last_error: None,
        };
        (elector, leadership)
    }

    /// Takes part in the election until `stop`. Begins once the process `is_ready`, so that the leader can plan. After
    /// this function returns, nothing more is written, but this process still holds the Lease. Call
    /// [`Elector::release`] once all requests have ended.
    pub async fn run(mut self, is_ready: impl Fn() -> bool, stop: CancellationToken) -> Self {
        loop {
            let wait = if is_ready() {
                // The attempt is not cancelled, because its result must be known before the Lease is released.
                self.attempt().await
            } else {
                READINESS_INTERVAL
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.terms.end();
        self
    }

    /// Releases the Lease, so that a follower need not wait until it expires.
    pub async fn release(mut self) {
        let Some(lease) = self.held.take() else { return };
        match self.put(record::released(lease, self.clock.timestamp())).await {
            Ok(_) => info!(lease = self.options.name, "released the Lease"),
            Err(error) => {
                warn!(
                    error = with_causes(&error),
                    lease = self.options.name,
                    "cannot release the Lease: it will expire"
                )
            }
        }
    }

    /// Takes or renews the Lease if possible. Returns the delay until the next attempt.
    async fn attempt(&mut self) -> Duration {
        let again = POLL_INTERVAL.min(self.options.duration / 6);
        let outcome = self.acquire_or_renew().await;
        if self.terms.end_if_expired() {
            warn!(lease = self.options.name, "lost leadership: the lease could not be renewed in time");
        }
        match outcome {
            Ok(true) => {
                self.last_error = None;
                self.options.duration / 3
            }
            Ok(false) => {
                self.last_error = None;
                self.step_down();
                again
            }
            Err(error) => {
                if error.is_outdated() {
                    // Another client wrote the Lease. The next attempt reads the Lease again soon. Until then, this
                    // process may still be the holder.
                    self.held = None;
                    return again / 10;
                }
                let text = with_causes(&error);
                if self.last_error.as_ref() != Some(&text) {
                    warn!(lease = self.options.name, error = text, "cannot take or renew the lease");
                    self.last_error = Some(text);
                }
                again
            }
        }
    }

    /// Takes or renews the Lease. Returns whether this process holds it now.
    async fn acquire_or_renew(&mut self) -> Result<bool, LeaseError> {
        let lease = match self.held.clone() {
            Some(lease) => lease,
            None => self.read().await?,
        };
        let ours = record::holder(&lease) == Some(&self.identity);
        if !ours && !self.observed.may_be_acquired(&lease, Instant::now()) {
            return Ok(false);
        }
        let sent = Instant::now();
        let lease = record::held(lease, &self.identity, self.options.duration, self.clock.timestamp());
        self.held = Some(self.put(lease).await?);
        let was_leader = self.terms.running();
        self.terms.extend(sent + self.options.duration * 2 / 3);
        if !was_leader {
            info!(lease = self.options.name, identity = self.identity, "became leader");
        }
        Ok(true)
    }

    fn step_down(&mut self) {
        self.held = None;
        if self.terms.running() {
            info!(lease = self.options.name, "lost leadership: another process holds the Lease");
        }
        self.terms.end();
    }

    async fn read(&self) -> Result<Lease, LeaseError> {
        let found = self.with_timeout(self.leases.get_opt(&self.options.name)).await?;
        Ok(found.unwrap_or_else(|| record::new(&self.options.name)))
    }

    /// Writes the Lease with optimistic locking: creates it if it was absent, or replaces the version that was read.
    async fn put(&self, lease: Lease) -> Result<Lease, LeaseError> {
        let params = PostParams::default();
        if lease.resource_version().is_none() {
            return self.with_timeout(self.leases.create(&params, &lease)).await;
        }
        self.with_timeout(self.leases.replace(&self.options.name, &params, &lease)).await
    }

    async fn with_timeout<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
        // An attempt that hangs must leave time for another attempt within the term.
        let limit = self.options.duration / 4;
        Ok(tokio::time::timeout(limit, request).await.map_err(|_| LeaseError::Timeout)??)
    }
}

#[cfg(test)]
mod tests;
