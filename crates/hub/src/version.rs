//! The version and commit of the build, for `--version` and the metric `policy_sync_build_info`.

use std::sync::LazyLock;

/// The version of the binary, the image and the chart.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, from an environment variable at build time. Reading it from git would cause a full rebuild after each
/// commit.
pub const REVISION: Option<&str> = match option_env!("POLICY_SYNC_REVISION") {
    Some(revision) if !revision.is_empty() => Some(revision),
    _ => None,
};

/// The number of characters of a commit hash that are printed.
const SHORT: usize = 12;

/// The version, followed by the short commit in parentheses if known.
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
