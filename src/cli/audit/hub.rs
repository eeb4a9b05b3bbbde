//! Audits the objects of a hub with the user's rights.

use anyhow::{anyhow, bail};
use tokio_util::task::AbortOnDropHandle;

use super::HubPolicyArguments;
use crate::cli::hub::HubArguments;
use crate::cli::namespaces_exist;
use crate::cli::output::print_message;
use crate::cli::policies::{self, LOAD_TIMEOUT};
use crate::cli::text::printable;
use policy_sync_controller::admission::audit::{Finding, Findings, Resource, Violation};
use policy_sync_controller::admission::auditor::{Auditor, PlacementViolation};
use policy_sync_controller::placement_policy::compliance::Compliance;
use policy_sync_controller::placement_policy::compliance_check;
use policy_sync_controller::rego_loading::Settings;
use policy_sync_rego::exemptions::Exemptions;

/// Audits the objects of the hub. If a namespace of Rego policies does not exist, prints a message and returns `None`.
///
/// # Errors
///
/// If the hub cannot be read, or a Rego policy cannot be evaluated.
pub(super) async fn find(
    hub: &HubArguments,
    arguments: &HubPolicyArguments,
    settings: Settings,
    exemptions: Exemptions,
) -> anyhow::Result<Option<Findings>> {
    let controller = arguments.controller.controller()?;
    let config = hub.config().await?;
    let reader = hub.client(config.clone())?;
    if !namespaces_exist(&reader, "--rego-namespace", &settings.namespaces).await? {
        return Ok(None);
    }
    let (loaded, _stops) = policies::start(hub, config, controller.clone(), settings)?;
    let auditor = Auditor::new(loaded.clone(), exemptions.clone(), true);
    let _keeps = AbortOnDropHandle::new(tokio::spawn(auditor.clone().keep()));
    if !policies::wait(&loaded, auditor.ready()).await?
        && let Some(missing) = auditor.not_loaded_reason()
    {
        bail!("still unknown after {} s: {missing}", LOAD_TIMEOUT.as_secs());
    }
    // Kinds whose lists are still incomplete are reported as errors.
    if let Some(kinds) = auditor.implied_kinds() {
        let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        print_message(printable(&format!(
            "policy-sync: a policy does not name the kinds that it denies: only kinds that policies read \
             are audited: {}",
            kinds.join(", ")
        )));
    }
    let placed = match auditor.has_placement_policies() {
        true => policies::placement(&reader, &controller, loaded, exemptions, None).await,
        false => Ok(Vec::new()),
    };
    let found = tokio::task::spawn_blocking(move || {
        let mut findings = Findings::with_limit(usize::MAX);
        let mut add = |found| findings.note(found);
        auditor.audit(&mut add, || true)?;
        match placed {
            Ok(found) => auditor.placement_violations(found.into_iter().map(placement_violation), &mut add),
            Err(error) => {
                let why = format!("placement is not audited: {error:#}");
                add(Finding::Violation(Violation::error(Resource::default(), why)));
            }
        }
        Ok(findings.sorted())
    });
    found.await?.map(Some).map_err(|why: String| anyhow!(why))
}

fn placement_violation(found: compliance_check::NonCompliantObject) -> PlacementViolation {
    let why = found.compliance.to_string().into();
    let is_warning = !matches!(found.compliance, Compliance::Violates(_));
    PlacementViolation { kind: found.gvr.kind, key: found.key, why, is_warning }
}
