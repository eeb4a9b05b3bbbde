//! What this was built from: `--version` and the metric `policy_sync_build_info` say the same.

use std::sync::LazyLock;

/// The version of the binary, of the image and of the chart.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, where whoever built this said so. It is not asked of git: each commit would build everything anew.
pub const REVISION: Option<&str> = match option_env!("POLICY_SYNC_REVISION") {
    Some(revision) if !revision.is_empty() => Some(revision),
    _ => None,
};

/// How much of a commit's hash tells it from all others.
const SHORT: usize = 12;

/// The version, and in brackets the commit where it is known.
#[must_use]
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| with(REVISION));
    &TEXT
}

fn with(revision: Option<&str>) -> String {
    match revision {
        None => VERSION.to_owned(),
        Some(revision) => format!("{VERSION} ({})", revision.chars().take(SHORT).collect::<String>()),
    }
}

#[cfg(test)]
mod tests;
