//! Logs on standard error: text on a terminal, otherwise one JSON object per line.

use std::ffi::OsStr;
use std::io::IsTerminal;

use tracing::{Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The default filter: `level` for this project's crates, and warnings for other crates.
#[must_use]
pub fn default_filter(level: Level) -> EnvFilter {
    EnvFilter::new(format!("{},policy_sync={level}", level.min(Level::WARN)))
}

/// `RUST_LOG` is invalid.
#[derive(Debug, thiserror::Error)]
#[error("RUST_LOG {text:?} is not a filter such as info or policy_sync=debug")]
pub struct FilterError {
    text: String,
}

/// Starts logging. `RUST_LOG` overrides `level`.
///
/// # Errors
///
/// If `RUST_LOG` is invalid.
pub fn start(level: Level) -> Result<(), FilterError> {
    let filter = filter(std::env::var_os(EnvFilter::DEFAULT_ENV).as_deref(), level)?;
    // A second call, as in tests, changes nothing.
    let _ = if std::io::stderr().is_terminal() {
        let text = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        text.with_target(false).try_init()
    } else {
        tracing::subscriber::set_global_default(json(std::io::stderr, filter))
            .map_err(|error| Box::new(error) as Box<dyn std::error::Error + Send + Sync>)
    };
    Ok(())
}

/// Logs to `writer` in JSON. This format prints an error without its sources, so errors are logged by
/// [`with_causes`](policy_sync_api::text::with_causes).
pub fn json<W: for<'w> MakeWriter<'w> + Send + Sync + 'static>(
    writer: W,
    filter: EnvFilter,
) -> impl Subscriber + Send + Sync {
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    builder.json().flatten_event(true).finish()
}

/// The filter of `RUST_LOG` if that is not empty, otherwise `level`.
fn filter(environment: Option<&OsStr>, level: Level) -> Result<EnvFilter, FilterError> {
    let Some(text) = environment.filter(|text| !text.is_empty()) else { return Ok(default_filter(level)) };
    let filter = text.to_str().and_then(|text| EnvFilter::try_new(text).ok());
    // The library's error messages are long and give no position.
    filter.ok_or_else(|| FilterError { text: text.to_string_lossy().into_owned() })
}

#[cfg(test)]
mod tests;
