//! Creates Kubernetes clients with the timeouts and metrics that the controller and the commands need.

use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};

use super::error::HubError;
use super::metered::MetricsLayer;
use super::request_timeout::RequestTimeout;
use crate::telemetry::metrics::Metrics;

/// The time limit for opening a connection, and for the first byte of a response.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(15);

/// The time without a byte from the hub after which a connection is closed. It must be longer than the gap between two
/// bookmarks of a watch, which is one minute.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(195);

/// A client for the controller: for watches, and for the writes that follow from them.
///
/// The client closes dead connections. Otherwise a request on such a connection would never end. If the request were a
/// list, its kind would never be watched.
///
/// The client does not retry. kube's own retries would repeat a write with unknown outcome up to 15 times, even minutes
/// later, regardless of leadership, backoff and metrics.
///
/// Each request is counted in `metrics` and limited by `timeout`.
///
/// # Errors
///
/// If the credentials of `config` cannot be loaded.
pub fn watch_client(
    mut config: Config,
    metrics: &Metrics,
    timeout: RequestTimeout,
) -> Result<Client, HubError> {
    config.connect_timeout = Some(FIRST_BYTE_TIMEOUT);
    config.read_timeout = Some(IDLE_TIMEOUT);
    // The idle time before a request does not count towards the timeout of the request.
    config.reset_reader_on_write = true;
    config.default_retry = false;
    let host = config.cluster_url.authority().map_or("", |authority| authority.as_str()).to_owned();
    let client_error = client_error(&config);
    let builder = ClientBuilder::try_from(config).map_err(client_error)?;
    Ok(timeout.limit(builder.with_layer(&MetricsLayer::new(metrics.clone(), &host)).build()))
}

/// A client for commands. Sends no request yet.
pub(super) fn command_client(mut config: Config, timeout: RequestTimeout) -> Result<Client, HubError> {
    let first_byte_timeout = (timeout == RequestTimeout::Unset).then_some(FIRST_BYTE_TIMEOUT);
    config.connect_timeout = first_byte_timeout;
    config.read_timeout = first_byte_timeout;
    let client_error = client_error(&config);
    Client::try_from(config).map(|client| timeout.limit(client)).map_err(client_error)
}

/// Maps an error of the client's construction to a [`HubError`] for `config`.
fn client_error(config: &Config) -> impl FnOnce(kube::Error) -> HubError + use<> {
    let url = url(config);
    // The library's message includes the causes, some on several lines.
    let cause = |error: kube::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    move |error| HubError::Client { url, cause: cause(error) }
}

/// The URL of the hub, for messages.
pub(super) fn url(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
