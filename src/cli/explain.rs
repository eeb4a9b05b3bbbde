//! `policy-sync explain`: why a Gateway or a policy is on a cluster of the hub, or is not, and what to change.
//!
//! What the controller would decide, it decides itself: its plan is made of what the hub holds, which is only read.

mod told;

use anyhow::bail;
use clap::{Args, ValueEnum};

use super::Answer;
use super::hub::HubArguments;
use super::kinds::{Meant, PolicyKind, full, meant};
use super::live::Live;
use super::output::{self, print};
use super::settings::SettingsArguments;
use crate::api::names::{ClusterName, ObjectKey, Parent};
use crate::api::object::HubObject;
use crate::cli::scratch::Scratch;
use crate::clock::Clock;
use crate::plan::explain::explain;
use crate::sync::kinds::POLICIES;
use told::Told;

/// Arguments of `policy-sync explain`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// `gateway`, or a kind of policies, as in `ratelimitpolicy`, `RateLimitPolicy` or `ratelimitpolicies.kuadrant.io`.
    kind: String,
    /// The name of the Gateway or of the policy.
    name: String,
    /// Its namespace; otherwise that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Only why it is on this cluster, or is not.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    settings: SettingsArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Sentences; clusters of which the same is to be said stand together.
    Text,
    /// The same for programs, with the names of all clusters.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Explains: fine where the object is on every cluster that was asked for, or that it is for, and in force there.
///
/// # Errors
///
/// Where there is no such object or cluster, or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Answer> {
    let settings = arguments.settings.settings()?;
    let controller = arguments.settings.controller()?;
    let config = hub.config().await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let cluster = arguments.cluster.as_ref();
    super::names(&[("NAMESPACE", Some(&namespace)), ("NAME", Some(&arguments.name)), ("CLUSTER", cluster)])?;
    let live = Live::new(config)?;
    live.is_hub().await?;
    let kind = kind_of(&live, &arguments.kind).await?;
    let key = ObjectKey::new(&namespace, &arguments.name);
    let object: Option<HubObject> = live.get(&kind.gvr, &kind.kind, &key).await?;
    let Some(object) = object else {
        bail!("the hub at {} has no {} {key}", live.url, kind.kind);
    };
    let found = super::plan::read(&live, &controller).await?;
    let parent = Parent { kind: kind.gvr.kind.clone(), object: key };
    // One of a kind that is not synced is explained by what it is.
    let source = POLICIES.resource(parent.kind.clone());
    let is_known = |scratch: &Scratch| scratch.read().view(Scratch::settled()).synced(&source).is_some();
    if !parent.is_gateway() && !is_known(&found.scratch) {
        found.scratch.list(&source, [&object]);
    }
    let mut explanation = {
        let guard = found.scratch.read();
        explain(guard.view(Clock::start().now()), &settings, &parent, &kind.kind, &found.silent)
    };
    if let Some(cluster) = cluster {
        explanation.clusters.retain(|name, _| *name.0 == **cluster);
        if explanation.clusters.is_empty() {
            bail!("the hub at {} has no ManagedCluster {}", live.url, ClusterName::from(cluster.as_str()));
        }
    }
    let told = Told::new(&parent, &kind.kind, explanation, cluster.is_some());
    print(&match arguments.output {
        Format::Text => told.text(),
        Format::Json => output::json(&told.json())?,
        Format::Yaml => output::yaml(&told.json())?,
    })?;
    Ok(if told.is_fine() { Answer::Fine } else { Answer::No })
}

/// The kind that a user means by `word`.
async fn kind_of(live: &Live, word: &str) -> anyhow::Result<PolicyKind> {
    let gateways = PolicyKind::gateways();
    if gateways.is_meant_by(word) {
        return Ok(gateways);
    }
    let served = live.served().await;
    match meant(&served, word) {
        Meant::Kind(kind) => Ok(kind.clone()),
        Meant::Ambiguous(several) => bail!("{word:?} is ambiguous: write {}", full(&several)),
        Meant::Nothing => bail!("the hub at {} serves no kind that is called {word:?}", live.url),
    }
}
