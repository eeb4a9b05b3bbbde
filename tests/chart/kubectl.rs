//! Runs the real kubectl as an administrator.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::ControlPlane;

/// Runs `kubectl` and returns its output.
///
/// # Errors
///
/// If `kubectl` fails. The error contains its output.
pub(crate) fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> Result<String> {
    let output = output(plane, arguments)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {}: {stderr}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs `kubectl`, which must fail, and returns its error output.
///
/// # Errors
///
/// If `kubectl` succeeds.
pub(crate) fn refused(plane: &ControlPlane, arguments: &[&str]) -> Result<String> {
    let output = output(plane, arguments)?;
    ensure!(!output.status.success(), "kubectl {} succeeded", arguments.join(" "));
    Ok(String::from_utf8(output.stderr)?)
}

fn output(plane: &ControlPlane, arguments: &[&str]) -> Result<Output> {
    let cache = tempfile::tempdir()?;
    Command::new(&plane.binaries().kubectl)
        .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
        .arg(format!("--cache-dir={}", cache.path().display()))
        .args(arguments)
        .output()
        .context("running kubectl")
}
