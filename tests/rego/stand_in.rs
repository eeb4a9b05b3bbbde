//! A server in place of the controller, with a fault.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use policy_sync_connections::{Descriptors, Limits, listen, serve_tls};
use policy_sync_controller::server::certificate_files::CertificateFiles;
use policy_sync_hub::certificates::CertificateResolver;
use policy_sync_testenv::webhooks::Webhooks;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A fault of a webhook server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The port is closed.
    Away,
    /// The response is sent at one byte a second.
    Slow,
    /// The response has the code 500.
    Broken,
    /// The certificate of the server has expired.
    Expired,
}

impl Fault {
    /// All faults.
    pub(crate) const ALL: [Self; 4] = [Self::Away, Self::Slow, Self::Broken, Self::Expired];

    fn response(self) -> Response {
        match self {
            Self::Slow => {
                let bytes = futures::stream::unfold((), |()| async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Some((Ok::<_, Infallible>(Bytes::from_static(b" ")), ()))
                });
                Response::new(Body::from_stream(bytes))
            }
            Self::Away | Self::Broken | Self::Expired => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

/// A running server.
pub(crate) struct StandIn {
    serving: JoinHandle<()>,
    stop: CancellationToken,
}

impl StandIn {
    /// Serves `router` at the port of `webhooks`, with the certificate in files.
    pub(crate) fn serving(webhooks: &Webhooks, router: Router) -> Result<Self> {
        let certificates = Arc::new(CertificateResolver::default());
        CertificateFiles::read(webhooks.folder()?, certificates.clone())
            .context("reading the certificate")?;
        let listener = listen(([127, 0, 0, 1], webhooks.port()).into()).context("listening")?;
        let stop = CancellationToken::new();
        let limits = Limits::webhooks(Descriptors::raise());
        let serving = tokio::spawn(serve_tls(listener, certificates, router, limits, stop.clone()));
        Ok(Self { serving, stop })
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // Open requests are aborted, so that the port is free.
        self.serving.abort();
        let _ = self.serving.await;
    }
}

/// Runs `check` while the server of `webhooks` has this fault.
pub(crate) async fn with_fault(
    fault: Fault,
    webhooks: &Webhooks,
    check: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    if fault == Fault::Expired {
        webhooks.expire()?;
    }
    let router = Router::new().fallback(move || async move { fault.response() });
    let stand_in = (fault != Fault::Away).then(|| StandIn::serving(webhooks, router)).transpose()?;
    let checked = check().await;
    if let Some(stand_in) = stand_in {
        stand_in.stop().await;
    }
    webhooks.renew()?;
    checked.with_context(|| format!("with the fault {fault:?}"))
}
