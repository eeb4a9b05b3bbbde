//! The installation on a hub: the chart with the real Helm, the sample manifests, the rights of the controller, and the
//! pages for new users.

mod alerts;
mod dashboard;
mod documentation;
mod helm;
mod kubectl;
mod prometheus;
mod rego;
mod rendering;
mod rights;
mod runbook;
mod samples;
mod simulated;
mod uninstall;
mod upgrade;
mod values;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The program under test: the path in `POLICY_SYNC_BINARY`, for example from an image; if not set, the test build.
fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("POLICY_SYNC_BINARY")
            .map_or_else(|| env!("CARGO_BIN_EXE_policy-sync").into(), PathBuf::from)
    });
    &BINARY
}
