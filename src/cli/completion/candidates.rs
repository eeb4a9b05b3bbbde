//! Candidates for completion: contexts from the kubeconfig, and names of objects from the hub. An error or a
//! slow hub yields no candidates and no message.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use clap::Command;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::line::CommandLine;
use policy_sync_api::names::ControllerName;
use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_hub::HubClient;
use policy_sync_report::{self as report, KindMatch, ServedKind, match_kind};

/// How long completion waits for the hub.
const HUB_TIMEOUT: Duration = Duration::from_secs(1);

/// The kind of names that an argument accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Contexts,
    Namespaces,
    Clusters,
    /// Kinds of policies, and these words.
    Kinds(&'static [&'static str]),
    /// Objects of the kind that the command line names.
    Objects,
}

/// Further words that `status` accepts as a kind.
const STATUS_WORDS: &[&str] = &["gateways", "policies", "resources", "cluster"];

/// Adds the candidates to the arguments of `command`. `words` is the typed command line.
pub(super) fn add(command: Command, words: &[OsString]) -> Command {
    let line = Arc::new(CommandLine::read(words));
    let with = |command: Command, arguments: &[(&'static str, NameKind)]| {
        arguments.iter().fold(command, |command, &(argument, names)| {
            let line = line.clone();
            let completer = ArgValueCompleter::new(move |typed: &OsStr| candidates(&line, names, typed));
            command.mut_arg(argument, |argument| argument.add(completer))
        })
    };
    let object = |kinds| {
        [
            ("kind", NameKind::Kinds(kinds)),
            ("name", NameKind::Objects),
            ("namespace", NameKind::Namespaces),
            ("cluster", NameKind::Clusters),
        ]
    };
    with(command, &[("context", NameKind::Contexts)])
        .mut_subcommand("status", |status| with(status, &object(STATUS_WORDS)))
        .mut_subcommand("explain", |explain| with(explain, &object(&["gateway"])))
        .mut_subcommand("plan", |plan| with(plan, &[("namespace", NameKind::Namespaces)]))
        .mut_subcommand("controller", |controller| {
            with(controller, &[("leader_elect_namespace", NameKind::Namespaces)])
        })
}

fn candidates(line: &Arc<CommandLine>, names: NameKind, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    // Clap also requests candidates if the typed word is an option.
    if typed.starts_with('-') {
        return Vec::new();
    }
    let all_names = match names {
        NameKind::Contexts => line.hub.iter().flat_map(|hub| hub.contexts()).collect(),
        NameKind::Kinds(words) => {
            words.iter().map(|&word| word.to_owned()).chain(query_hub(line, names)).collect()
        }
        NameKind::Namespaces | NameKind::Clusters | NameKind::Objects => query_hub(line, names),
    };
    all_names.into_iter().filter(|name| name.starts_with(&*typed)).map(CompletionCandidate::new).collect()
}

/// Queries the hub; empty after a timeout.
fn query_hub(line: &Arc<CommandLine>, names: NameKind) -> Vec<String> {
    let Ok(runtime) = Handle::try_current() else { return Vec::new() };
    let line = line.clone();
    // The query runs in a separate task, so that a login that never ends cannot block completion.
    let asking = runtime.spawn(async move { names_from_hub(&line, names).await.unwrap_or_default() });
    let response = block_in_place(|| runtime.block_on(async { timeout(HUB_TIMEOUT, asking).await }));
    response.ok().and_then(Result::ok).unwrap_or_default()
}

async fn names_from_hub(line: &CommandLine, names: NameKind) -> anyhow::Result<Vec<String>> {
    let Some(hub) = &line.hub else { return Ok(Vec::new()) };
    let controller = line.controller();
    let config = hub.config().await?;
    let namespace = line.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let namespace = if line.all_namespaces { "" } else { &*namespace };
    anyhow::ensure!(namespace.is_empty() || is_dns_subdomain(namespace), "no namespace has this name");
    let hub = hub.client(config)?;
    Ok(match names {
        NameKind::Contexts => Vec::new(),
        NameKind::Namespaces => report::namespaces(&hub).await?,
        NameKind::Clusters => report::clusters(&hub).await?,
        // `explain` takes one object. `status` lists several, so its candidates are plurals.
        NameKind::Kinds(STATUS_WORDS) => plurals(&report::synced_kinds(&hub, &controller).await?),
        NameKind::Kinds(_) => singulars(&report::synced_kinds(&hub, &controller).await?),
        NameKind::Objects => {
            objects(&hub, &controller, line.kind.as_deref().unwrap_or_default(), namespace).await?
        }
    })
}

fn plurals(kinds: &[ServedKind]) -> Vec<String> {
    kinds.iter().map(|kind| kind.gvr.kind.resource.to_string()).collect()
}

fn singulars(kinds: &[ServedKind]) -> Vec<String> {
    kinds.iter().map(|kind| kind.kind.to_lowercase()).collect()
}

async fn objects(
    hub: &HubClient,
    controller: &ControllerName,
    word: &str,
    namespace: &str,
) -> anyhow::Result<Vec<String>> {
    if report::RequestedKinds::parse(Some(word)) == report::RequestedKinds::Cluster {
        return Ok(report::clusters(hub).await?);
    }
    let gateways = ServedKind::gateways();
    if gateways.matches_name(word) {
        return Ok(report::objects(hub, &gateways, namespace).await?);
    }
    match match_kind(&report::synced_kinds(hub, controller).await?, word) {
        KindMatch::Kind(kind) => Ok(report::objects(hub, kind, namespace).await?),
        KindMatch::Ambiguous(_) | KindMatch::Nothing => Ok(Vec::new()),
    }
}
