//! The audit of a hub, with the caller's rights.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio_util::sync::CancellationToken;

use super::OfHub;
use crate::api::names::ControllerName;
use crate::cli::hub::HubArguments;
use crate::cli::output::say;
use crate::cli::text::printable;
use crate::clock::Clock;
use crate::gatekeeper::audit::{Findings, Found, Resource, Violation};
use crate::gatekeeper::auditor::{Auditor, Misplaced};
use crate::hub::{HubClient, watching};
use crate::placement::by_hand::{self, Look};
use crate::placement::standing::Standing;
use crate::reconcile::Leadership;
use crate::rego::confined::Checker;
use crate::rego::exemptions::Exemptions;
use crate::rego::loading::{Loaded, Loading, Settings};
use crate::sync::OfflineMirror;
use crate::sync::desired::covered::covered;
use crate::sync::dry_run;
use crate::tasks::Tasks;
use crate::telemetry::metrics::Metrics;

/// How long may pass until all is read.
const WITHIN: Duration = Duration::from_secs(60);

/// What stands on the hub and breaks the policies that are there.
///
/// # Errors
///
/// Where the hub cannot be read, or policies cannot be asked.
pub(super) async fn find(
    hub: &HubArguments,
    arguments: &OfHub,
    settings: Settings,
    exemptions: Exemptions,
) -> anyhow::Result<Findings> {
    let (controller, clock) = (arguments.controller.controller()?, Clock::start());
    let config = hub.config().await?;
    let reader = hub.client(config.clone())?;
    let metrics = Metrics::new().context("cannot set metrics up")?;
    let client = watching(config, &metrics, hub.request_timeout())?;
    let checker = Checker::this_program()?.evaluated(settings.evaluator.evaluates());
    let check = checker.asking(settings.packages.clone()).into_check();
    let loading = Loading::new(controller.clone(), settings, clock, check)?;
    let loaded = loading.loaded();
    let auditor = Auditor::new(loaded.clone(), exemptions.clone(), true);
    let (stop, tasks) = (CancellationToken::new(), Tasks::new(metrics.clone()));
    let _stops = stop.clone().drop_guard();
    tokio::spawn(loading.start(client, Leadership::never(), &metrics, &tasks, stop.clone()));
    let keeping = auditor.clone().keep();
    tokio::spawn(async move { stop.run_until_cancelled(keeping).await });
    if tokio::time::timeout(WITHIN, auditor.ready()).await.is_err()
        && let Some(missing) = auditor.unloaded()
    {
        bail!("not known after {} s: {missing}", WITHIN.as_secs());
    }
    // What is not listed by now is told as an error.
    if let Some(kinds) = auditor.unnamed() {
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        say(printable(&format!(
            "policy-sync: a policy names no kind that it denies: of all, those that policies read are looked at: {}",
            kinds.join(", ")
        )));
    }
    let placed = match auditor.places() {
        true => placement(&reader, &controller, loaded.clone(), exemptions).await,
        false => Ok(Vec::new()),
    };
    let found = tokio::task::spawn_blocking(move || {
        let mut findings = Findings::keeping(usize::MAX);
        let mut add = |found| findings.note(found);
        auditor.audit(&mut add, || true)?;
        match &placed {
            Ok(found) => {
                let texts: Vec<(&by_hand::Found, String)> =
                    found.iter().map(|found| (found, found.standing.to_string())).collect();
                let misplaced = texts.iter().map(|(found, text)| Misplaced {
                    kind: &found.gvr.kind,
                    key: &found.key,
                    why: text,
                    is_warning: !matches!(found.standing, Standing::Breaks(_)),
                });
                auditor.misplaced(misplaced, &mut add);
            }
            Err(error) => {
                let why = format!("where policies place objects is not looked at: {error:#}");
                add(Found::Violation(Violation::error(Resource::default(), why)));
            }
        }
        Ok(findings.in_order())
    });
    found.await?.map_err(|why: String| anyhow!(why))
}

/// What policies of placement say otherwise.
///
/// # Errors
///
/// Where it cannot be found out.
async fn placement(
    client: &HubClient,
    controller: &ControllerName,
    loaded: Loaded,
    exemptions: Exemptions,
) -> anyhow::Result<Vec<by_hand::Found>> {
    let read = dry_run::read(client, controller).await?;
    let covered = covered(read.mirror.read().view(OfflineMirror::settled()));
    let covered = covered.context("the GatewayClasses are not known")?;
    let look = Look::new(loaded, covered, exemptions);
    if tokio::time::timeout(WITHIN, look.ready()).await.is_err()
        && let Some(missing) = look.missing()
    {
        bail!("not known after {} s: {missing}", WITHIN.as_secs());
    }
    tokio::task::spawn_blocking(move || look.found(None)).await?.map_err(|why| anyhow!(why))
}
