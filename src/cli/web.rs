//! `policy-sync web`: serves the fleet as web pages on this machine, with the user's rights.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::hub::HubArguments;
use super::manifests::{self, Manifests};
use super::output::{print, print_messages};
use super::plan::pages;
use super::settings::SettingsArguments;
use super::{Outcome, progress, shutdown_signal, topology};
use policy_sync_api::names::ControllerName;
use policy_sync_connections::listen;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::watch_client;
use policy_sync_report::fleet::Live;
use policy_sync_sync::Settings;
use policy_sync_web::server::{self, ChangeEvents, Guard, Key, Pages};

pub(super) const EXAMPLES: &str = "\
Examples:
  # Serve the page, and print its address
  policy-sync web

  # The manifests in a directory instead of a hub
  policy-sync web -f shop/";

/// Arguments of `policy-sync web`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Port on 127.0.0.1; 0 selects a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Read objects from a file, a directory (its *.yaml, *.yml and *.json files), or standard input (-) instead of a
    /// hub, once. Repeatable.
    #[arg(short, long = "filename", value_name = "FILE|DIR|-")]
    filenames: Vec<PathBuf>,
    /// Read and show only objects in this namespace. Objects in files without a namespace get this one (default:
    /// `default`).
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// All namespaces. This is the default without --namespace.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// Serves the pages until the process is stopped.
///
/// # Errors
///
/// If the port is in use, or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let shutdown = shutdown_signal()?;
    tokio::select! {
        () = shutdown => Ok(Outcome::Positive),
        served = serve(hub, arguments) => served,
    }
}

async fn serve(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (controller, settings) = (arguments.settings.controller()?, arguments.settings.settings()?);
    super::names(&[("--namespace", arguments.namespace.as_ref())])?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let listener =
        listen(address).with_context(|| format!("cannot listen on {address}, choose another --port"))?;
    let port = listener.local_addr().context("cannot determine the port")?.port();
    let waiting = progress::begin();
    let live = if arguments.filenames.is_empty() {
        let config = hub.config().await?;
        let client = watch_client(config.clone(), &Metrics::new()?, hub.request_timeout())?;
        let (hub, namespace) = (hub.client(config)?, arguments.namespace.as_deref());
        let live = Live::start(hub.clone(), client, controller, namespace).await?;
        if !super::namespaces_exist(&hub, "--namespace", &arguments.namespace).await? {
            return Ok(Outcome::Negative);
        }
        live
    } else {
        from_files(arguments, &controller, &settings).await?
    };
    let live = Arc::new(live);
    drop(waiting);
    let (change_events, guard) = (ChangeEvents::default(), Guard::new(Key::new()?, port));
    print(&format!("{}\n", guard.address()))?;
    let router = server::router(Pages::new(live.clone(), change_events.clone(), settings), guard);
    tokio::select! {
        () = server::serve(listener, router, CancellationToken::new()) => Ok(Outcome::Positive),
        followed = change_events.publish_changes(&live) => followed.map(|()| Outcome::Positive).map_err(|error| anyhow!(error)),
        () = print_unread(&live, &change_events) => Ok(Outcome::Positive),
    }
}

/// Reads the files instead of a hub.
async fn from_files(
    arguments: &Arguments,
    controller: &ControllerName,
    settings: &Settings,
) -> anyhow::Result<Live> {
    let namespace = arguments.namespace.as_deref();
    let of_none = namespace.unwrap_or("default");
    let Manifests { read, unreadable } = manifests::read_each(&arguments.filenames)?;
    unreadable.end(Outcome::Positive)?;
    let (objects, _) = manifests::divided(read.clone());
    let prefix = settings.downstream_namespace_prefix.clone();
    let watched_topology = topology::objects_of(read, of_none, controller.clone(), prefix)?;
    let file_objects = pages::file_objects(objects, of_none, controller);
    Ok(Live::from_files(file_objects, watched_topology, namespace).await?)
}

/// Prints missing rights and faults of parameters once all kinds are listed, then waits forever.
async fn print_unread(live: &Live, change_events: &ChangeEvents) {
    let mut events = change_events.subscribe();
    while !live.view().unlisted().is_empty() {
        if events.changed().await.is_err() {
            break;
        }
    }
    let (unread, faults) = {
        let view = live.view();
        (view.unread(), view.watched_kinds().faults.clone())
    };
    let named = if live.is_from_files() { "" } else { "error: " };
    print_messages(unread.into_iter().chain(faults.into_iter().map(|fault| format!("{named}{fault}"))));
    std::future::pending().await
}
