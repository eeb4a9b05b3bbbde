//! Free TCP ports of 127.0.0.1 that stay ours.
//!
//! The kernel hands out ports above 32768 to whoever asks next, also to outgoing connections: an API server that is
//! away for a moment could find its port taken. These come from below that range, and a file lock keeps the tests of
//! other processes from choosing the same ones. The lock ends with the process that holds it.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

const FIRST: u32 = 20_000;
const COUNT: u32 = 10_000;

/// A port that no other test process on this machine takes while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds a port that is free now.
    pub fn reserve() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let locks = std::env::temp_dir().join("policy-sync-testenv-ports");
        fs::create_dir_all(&locks).with_context(|| format!("creating {}", locks.display()))?;
        // Processes begin at different places, so that they seldom try the same port.
        let start = process::id().wrapping_mul(97);
        for _ in 0..COUNT {
            let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let number = u16::try_from(FIRST + offset).context("a port beyond 65535")?;
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

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }
}
