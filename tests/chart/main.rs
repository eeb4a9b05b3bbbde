//! What an administrator puts on a hub: the chart, with the real Helm, and the samples beside it. Each does what it says, with
//! the rights that it gives and no others, and so do the pages that a newcomer follows.

mod alerts;
mod dashboard;
mod documentation;
mod helm;
mod kubectl;
mod played;
mod prometheus;
mod rego;
mod rendering;
mod rights;
mod runbook;
mod samples;
mod uninstall;
mod upgrade;
mod values;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The controller: what `POLICY_SYNC_BINARY` names, as that of an image, or as it was built for tests.
fn binary() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        std::env::var_os("POLICY_SYNC_BINARY")
            .map_or_else(|| env!("CARGO_BIN_EXE_policy-sync").into(), PathBuf::from)
    });
    &BINARY
}
