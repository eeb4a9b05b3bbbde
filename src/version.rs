//! The version and commit of the build, for `--version` and the metric `policy_sync_build_info`.

use std::sync::LazyLock;

use policy_sync_hub::telemetry::metrics::Metrics;

/// The version of the binary, the image and the chart.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, from an environment variable at build time. Reading it from git would cause a full rebuild after each
/// commit.
pub const REVISION: Option<&str> = match option_env!("POLICY_SYNC_REVISION") {
    Some(revision) if !revision.is_empty() => Some(revision),
    _ => None,
};

/// The number of characters of a commit hash that are printed.
const SHORT_COMMIT_LENGTH: usize = 12;

/// The version, followed by the short commit in parentheses if known.
#[must_use]
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| format_version(REVISION));
    &TEXT
}

/// Registers the metric `policy_sync_build_info`.
///
/// # Errors
///
/// If the metric is registered already.
pub fn export(metrics: &Metrics) -> anyhow::Result<()> {
    let help = "Constant 1, with the version and commit of the process.";
    let gauge = metrics.factory().gauges("policy_sync_build_info", help, &["version", "revision"])?;
    gauge.with_label_values(&[VERSION, REVISION.unwrap_or("unknown")]).set(1);
    Ok(())
}

fn format_version(revision: Option<&str>) -> String {
    match revision {
        None => VERSION.to_owned(),
        Some(revision) => {
            format!("{VERSION} ({})", revision.chars().take(SHORT_COMMIT_LENGTH).collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests;
