//! Takes the Lease, renews it and gives it back.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::record::{self, Observed};
use super::{Leadership, Terms};
use crate::clock::Clock;
use policy_sync_api::text::with_causes;

/// The longest time between two looks at another's Lease.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether this process is ready.
const READY_EVERY: Duration = Duration::from_millis(50);

/// How an elector stands for election.
#[derive(Clone, Debug)]
pub struct ElectorOptions {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// How long the Lease is another's after its last renewal; whole seconds.
    pub duration: Duration,
}

/// Stands for election until it is asked to stop.
#[derive(Debug)]
pub struct Elector {
    leases: Api<Lease>,
    options: ElectorOptions,
    identity: String,
    clock: Clock,
    terms: Terms,
    observed: Observed,
    /// The Lease as this process has last written it.
    held: Option<Lease>,
    /// What was last said about a request that failed.
    fault: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("no answer in time")]
    Timeout,
    #[error("request failed: {0}")]
    Request(#[from] kube::Error),
}

impl LeaseError {
    /// Whether the server knows a newer Lease than we do, or none.
    fn is_outdated(&self) -> bool {
        matches!(self, Self::Request(kube::Error::Api(status)) if matches!(status.code, 404 | 409))
    }
}

impl Elector {
    /// An elector, and the leadership that it decides.
    #[must_use]
    pub fn new(client: Client, options: ElectorOptions, clock: Clock) -> (Self, Leadership) {
        let (terms, leadership) = Terms::new();
        // Two processes with one identity would both lead; pods of one name can overlap.
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "policy-sync".to_owned());
        let identity = format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()));
        let elector = Self {
            leases: Api::namespaced(client, &options.namespace),
            options,
            identity,
            clock,
            terms,
            observed: Observed::default(),
            held: None,
            fault: None,
        };
        (elector, leadership)
    }

    /// Stands for election from when this process `is_ready`, so that the leader is one that can plan, until `stop`. Then
    /// nothing more is written, but the Lease is still held: [`Elector::release`] follows once what was sent is
    /// answered.
    pub async fn run(mut self, is_ready: impl Fn() -> bool, stop: CancellationToken) -> Self {
        loop {
            let wait = if is_ready() {
                // Not cut short: what was asked must be known when the Lease is given back.
                self.attempt().await
            } else {
                READY_EVERY
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.terms.end();
        self
    }

    /// Gives the Lease back, so that a follower need not wait until it expires.
    pub async fn release(mut self) {
        let Some(lease) = self.held.take() else { return };
        match self.put(record::released(lease, self.clock.timestamp())).await {
            Ok(_) => info!(lease = self.options.name, "gave the lease back"),
            Err(error) => {
                warn!(
                    error = with_causes(&error),
                    lease = self.options.name,
                    "could not give the lease back: it expires"
                )
            }
        }
    }

    /// Takes or renews the Lease where that can be, and returns when to try again.
    async fn attempt(&mut self) -> Duration {
        let again = LOOK_EVERY.min(self.options.duration / 6);
        let outcome = self.take_or_renew().await;
        if self.terms.lapse() {
            warn!(lease = self.options.name, "lost leadership: the lease could not be renewed in time");
        }
        match outcome {
            Ok(true) => {
                self.fault = None;
                self.options.duration / 3
            }
            Ok(false) => {
                self.fault = None;
                self.step_down();
                again
            }
            Err(fault) => {
                if fault.is_outdated() {
                    // Somebody else wrote it. Who it is is read at once, and until then it may be ours.
                    self.held = None;
                    return again / 10;
                }
                let text = with_causes(&fault);
                if self.fault.as_ref() != Some(&text) {
                    warn!(lease = self.options.name, error = text, "cannot take or renew the lease");
                    self.fault = Some(text);
                }
                again
            }
        }
    }

    /// Whether the Lease is ours now.
    async fn take_or_renew(&mut self) -> Result<bool, LeaseError> {
        let lease = match self.held.clone() {
            Some(lease) => lease,
            None => self.read().await?,
        };
        let ours = record::holder(&lease) == Some(&self.identity);
        if !ours && !self.observed.may_be_taken(&lease, Instant::now()) {
            return Ok(false);
        }
        let sent = Instant::now();
        let lease = record::held(lease, &self.identity, self.options.duration, self.clock.timestamp());
        self.held = Some(self.put(lease).await?);
        let led = self.terms.running();
        self.terms.extend(sent + self.options.duration * 2 / 3);
        if !led {
            info!(lease = self.options.name, identity = self.identity, "became leader");
        }
        Ok(true)
    }

    fn step_down(&mut self) {
        self.held = None;
        if self.terms.running() {
            info!(lease = self.options.name, "lost leadership: another has taken the lease");
        }
        self.terms.end();
    }

    async fn read(&self) -> Result<Lease, LeaseError> {
        let found = self.within(self.leases.get_opt(&self.options.name)).await?;
        Ok(found.unwrap_or_else(|| record::new(&self.options.name)))
    }

    /// Writes the Lease where it is still at the version that was read, or not there.
    async fn put(&self, lease: Lease) -> Result<Lease, LeaseError> {
        let params = PostParams::default();
        if lease.resource_version().is_none() {
            return self.within(self.leases.create(&params, &lease)).await;
        }
        self.within(self.leases.replace(&self.options.name, &params, &lease)).await
    }

    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
        // An attempt that hangs must leave time for another before the term is over.
        let limit = self.options.duration / 4;
        Ok(tokio::time::timeout(limit, request).await.map_err(|_| LeaseError::Timeout)??)
    }
}

#[cfg(test)]
mod tests;
