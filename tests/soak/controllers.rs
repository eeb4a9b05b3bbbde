//! Starts controllers one after the other. Each start disconnects the previous controller from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use crate::noise::Noise;
use crate::users::CONTROLLER;
use policy_sync_testenv::MemoryServer;
use policy_sync_testenv::memory::{EventOutcome, Interposer, RequestInfo, RequestOutcome, keep_topology};

/// The user that all controllers run as.
const USER: &str = "controller";

/// The controllers of one seed.
pub(crate) struct Controllers {
    server: MemoryServer,
    noise: Noise,
    starts: usize,
    last: Option<(Arc<AtomicBool>, CancellationToken)>,
}

/// Injects the faults for one controller, until it is disconnected.
struct Connection {
    noise: Noise,
    cut: Arc<AtomicBool>,
}

impl Interposer for Connection {
    fn request(&self, request: &RequestInfo) -> RequestOutcome {
        if self.cut.load(Ordering::Relaxed) { RequestOutcome::Reset } else { self.noise.request(request) }
    }

    fn event(&self, watch: &RequestInfo, object: &str) -> EventOutcome {
        if self.cut.load(Ordering::Relaxed) { EventOutcome::Stalled } else { self.noise.event(watch, object) }
    }
}

impl Controllers {
    pub(crate) fn new(server: MemoryServer, noise: Noise) -> Self {
        Self { server, noise, starts: 0, last: None }
    }

    /// Starts a controller after disconnecting the previous controller, as after a crash.
    pub(crate) fn start(&mut self) -> Result<()> {
        if let Some((cut, stop)) = self.last.take() {
            cut.store(true, Ordering::Relaxed);
            stop.cancel();
        }
        self.starts += 1;
        let cut = Arc::new(AtomicBool::new(false));
        let connection = Connection { noise: self.noise.clone(), cut: cut.clone() };
        let mut flow = self.server.flow_of(USER, CONTROLLER, connection)?;
        keep_topology(&mut flow)?;
        let stop = CancellationToken::new();
        drop(flow.start(stop.clone()));
        self.last = Some((cut, stop));
        Ok(())
    }

    pub(crate) fn starts(&self) -> usize {
        self.starts
    }

    /// The number of writes that have reached the server, without Events.
    pub(crate) fn writes(&self) -> usize {
        self.server.requests().iter().filter(|request| counts(request)).count()
    }

    pub(crate) fn last_write(&self) -> String {
        let requests = self.server.requests();
        requests.iter().rev().find(|request| counts(request)).map(ToString::to_string).unwrap_or_default()
    }
}

fn counts(request: &RequestInfo) -> bool {
    // A request that never arrived has no code.
    request.user == USER && request.is_write() && request.resource != "events" && request.code != 0
}
