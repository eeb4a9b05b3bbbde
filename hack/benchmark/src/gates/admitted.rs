//! G1: creates of pods at a constant rate, each with two reviews: by the controller with many documents, or by a
//! raw webhook.

use anyhow::Result;

use super::pods;
use crate::Options;
use crate::allowing::{AllowWebhook, MUTATING, VALIDATING};
use crate::creates::over_raw;
use crate::documents::{self, PODS, Variety};
use crate::hub::MeasuredHub;
use crate::pace::{create, take_turns};
use crate::rego_policies::{self, Reviewer};
use crate::report::Measure;
use crate::sample::Sample;

/// The namespace whose pods the controller reviews.
const ADMITTED: &str = "admitted";
/// The namespace whose pods the raw webhook allows.
const ALLOWED: &str = "allowed";

/// Measures creates with the controller and with the raw webhook.
pub(crate) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set(hub).await?;
    documents::fill(&hub.client, options.documents, Variety::Different).await?;
    let exempt = format!("{},{ALLOWED}", rego_policies::exempt());
    let reviewer = Reviewer::start(hub, ADMITTED, options.documents, &[exempt]).await?;
    let allowing = AllowWebhook::start(&hub.client, ALLOWED, PODS, &[MUTATING, VALIDATING], None).await?;
    pods::until_denied(&hub.client, ADMITTED).await?;
    let took = take_turns(options, [ADMITTED, ALLOWED], async |namespace, numbers| {
        let pod = |index| pods::fine(namespace, index);
        let completed = create(&hub.client, &PODS.within(namespace), options.rate, numbers, pod).await?;
        // The pods are also documents, and the number of documents must stay constant.
        documents::clear(&hub.client, PODS, [namespace.to_owned()].into_iter()).await?;
        Ok(completed)
    })
    .await?;
    reviewer.stop(hub).await?;
    allowing.stop(&hub.client).await?;
    documents::clear(&hub.client, PODS, documents::namespaces()).await?;
    let [admitted, allowed] = took.map(|took| Sample::seconds(&took));
    Ok(over_raw("G1", options.rate, &admitted, &allowed, ""))
}
