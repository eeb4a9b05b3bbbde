//! A controller with one capability. It annotates each ConfigMap that has the label `example.com/count=true` with the
//! number of its keys.
//!
//! Run it with `cargo run -p policy-sync-hub --example counting`. It uses the current context of the kubeconfig, and
//! ends with Ctrl-C. The tests simulate each fault of an API server at each request and each watch event of the
//! controller.

mod counting;
#[cfg(test)]
mod tests;

use kube::Client;
use policy_sync_hub::clock::Clock;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let stop = CancellationToken::new();
    let _watching = counting::start(Client::try_default().await?, Clock::start(), stop.clone())?;
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(())
}
