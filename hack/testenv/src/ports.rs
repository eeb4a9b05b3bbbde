//! Reserves free TCP ports of 127.0.0.1 across test processes.
//!
//! The kernel assigns ports above 32768 to any process, also for outgoing connections. An API server that restarts
//! could lose such a port. The ports here are below that range, and a file lock prevents other test processes from
//! choosing the same port. The lock ends with its process.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

/// A port that no other test process on this machine uses while this value exists.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds and locks a free port.
    pub fn reserve() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let locks = std::env::temp_dir().join("policy-sync-testenv-ports");
        fs::create_dir_all(&locks).with_context(|| format!("creating {}", locks.display()))?;
        // Processes start at different offsets to avoid collisions.
        let start = process::id().wrapping_mul(97);
        for _ in 0..COUNT {
            let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let number = u16::try_from(FIRST + offset).context("port beyond 65535")?;
            let path = locks.join(number.to_string());
            let lock = File::options()
                .create(true)
                .append(true)
                .open(&path)
                .with_context(|| format!("opening {}", path.display()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _lock: lock });
            }
        }
        bail!("no free port on 127.0.0.1 from {FIRST} to {}", FIRST + COUNT - 1)
    }

    /// The port number.
    pub fn number(&self) -> u16 {
        self.number
    }
}
