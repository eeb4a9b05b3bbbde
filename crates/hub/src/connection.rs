//! Clients of the hub that a configuration leads to.

use std::time::Duration;

use kube::client::ClientBuilder;
use kube::{Client, Config};

use super::error::HubError;
use super::metered::Metering;
use super::request_timeout::RequestTimeout;
use crate::telemetry::metrics::Metrics;

/// How long to wait for a connection, and, for one answer, until it begins.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// After this time without a byte from the hub a connection is given up: longer than a watch is silent, which has a bookmark
/// every minute.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(195);

/// A client for watches, and for what is decided from them.
///
/// It gives up connections that have died without a word: nothing else would end a request on one of them, and while a list
/// does not end, its kind is not followed. And it repeats nothing by itself. The library's own retries would send a write
/// again whose answer is not known, up to 15 times and minutes later, unseen by leadership, backoff and metrics. Each request
/// counts in `metrics`, and none takes longer than `timeout` says.
///
/// # Errors
///
/// Where its credentials cannot be read or had.
pub fn watching(mut config: Config, metrics: &Metrics, timeout: RequestTimeout) -> Result<Client, HubError> {
    config.connect_timeout = Some(ANSWERS_WITHIN);
    config.read_timeout = Some(IDLE_TIMEOUT);
    // A connection that lay idle before is not to blame for that.
    config.reset_reader_on_write = true;
    config.default_retry = false;
    let host = config.cluster_url.authority().map_or("", |authority| authority.as_str()).to_owned();
    let unusable = unusable(&config);
    let builder = ClientBuilder::try_from(config).map_err(unusable)?;
    Ok(timeout.limit(builder.with_layer(&Metering::new(metrics.clone(), &host)).build()))
}

/// A client for what people ask, of which nothing is asked yet.
pub(super) fn asking(mut config: Config, timeout: RequestTimeout) -> Result<Client, HubError> {
    let answers_within = (timeout == RequestTimeout::Unset).then_some(ANSWERS_WITHIN);
    config.connect_timeout = answers_within;
    config.read_timeout = answers_within;
    let unusable = unusable(&config);
    Client::try_from(config).map(|client| timeout.limit(client)).map_err(unusable)
}

/// Why no client can be made of `config`.
fn unusable(config: &Config) -> impl FnOnce(kube::Error) -> HubError + use<> {
    let url = url(config);
    // The library names its causes itself, some in several lines.
    let cause = |error: kube::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    move |error| HubError::Client { url, cause: cause(error) }
}

/// Where the hub is, for words.
pub(super) fn url(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
