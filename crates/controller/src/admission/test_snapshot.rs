//! Snapshots of Rego policies for tests.

use std::collections::BTreeMap;

use serde_json::Value;

use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::EnforcementAction;
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::module::{ModuleId, Text};
use policy_sync_rego::snapshot::{ReviewInputs, Snapshot};

/// A snapshot of the modules `texts`, with this `enforcement` and `data`. Module names begin with `prefix`. The Rego
/// policies call the kind of Pods `pods`.
pub(super) fn test_snapshot(
    prefix: &str,
    texts: &[&str],
    data: Value,
    enforcement: EnforcementAction,
) -> Snapshot {
    let id = |number: usize| ModuleId::new(&format!("{prefix}{number}.rego"));
    let texts: Vec<Text> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| Text { id: id(number), text: (*text).into() })
        .collect();
    let enforcement_overrides = texts.iter().map(|text| (text.id.clone(), enforcement)).collect();
    let engine =
        Evaluator::Embedded.engine(&Bundle::read(&texts).unwrap()).unwrap().with_data(data.into()).unwrap();
    let names = BTreeMap::from([(GroupResource::new("", "pods"), ["pods".to_owned()].into())]);
    Snapshot::new(engine, BTreeMap::new()).with_review_inputs(ReviewInputs {
        names,
        enforcement_overrides,
        ..ReviewInputs::default()
    })
}
