//! Logs: text on a terminal, one JSON object a line elsewhere, always on standard error.

use std::io::IsTerminal;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Starts logging. `RUST_LOG` chooses what is logged; without it, `info` and above of this crate.
pub fn start() {
    // A second start, as in tests, leaves the first as it is.
    let _ = if std::io::stderr().is_terminal() {
        let text = tracing_subscriber::fmt().with_env_filter(filter()).with_writer(std::io::stderr);
        text.with_target(false).try_init()
    } else {
        tracing::subscriber::set_global_default(json(std::io::stderr))
            .map_err(|error| Box::new(error) as Box<dyn std::error::Error + Send + Sync>)
    };
}

/// Logs to `writer` as elsewhere than on a terminal. It prints an error without its causes, so errors are logged by
/// [`with_causes`](crate::api::text::with_causes).
pub fn json<W: for<'w> MakeWriter<'w> + Send + Sync + 'static>(writer: W) -> impl Subscriber + Send + Sync {
    let builder = tracing_subscriber::fmt().with_env_filter(filter()).with_writer(writer);
    builder.json().flatten_event(true).finish()
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,policy_sync=info"))
}
