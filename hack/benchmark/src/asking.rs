//! Queries to an engine of Rego policies, as in the webhooks' handlers. The compared engines take turns.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use policy_sync_api::admission::AdmissionReview;
use policy_sync_controller::admission::review::{AdmissionPhase, review};
use policy_sync_controller::placement_policy::evaluation::{self, PlacementDecision};
use policy_sync_hub::json_client::{CredentialFiles, JsonClient};
use policy_sync_rego::bundle::Bundle;
use policy_sync_rego::engine::{Engine, Evaluator};
use policy_sync_rego::opa::{Opa, push};
use policy_sync_rego::snapshot::Snapshot;
use policy_sync_testenv::Opa as Server;
use serde_json::{Value, json};

use super::documents::{self, Variety};
use super::sample::Sample;

/// Number of different input objects, which are used in rotation.
const OBJECTS: usize = 64;
/// Queries per turn. Within a turn, no other engine uses the processor's caches.
const TURN: usize = 50;
/// Number of turns at the beginning that are not measured.
const WARM_UP: usize = 4;

/// Package and query of admission policies.
const ADMISSION: (&str, &str) = ("admission", "data.admission.deny");

/// A kind of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// The placement of an app.
    Placement,
    /// The denials of a pod.
    Deny,
    /// The whole review of a pod, from request body to response body.
    Review,
    /// The review of an Ingress with the same host as another Ingress. The field is the number of Ingresses.
    ReviewOfIngress(usize),
}

/// An engine with a query and its inputs.
pub(super) struct QueryArm {
    snapshot: Snapshot,
    question: Query,
    objects: Arc<[Object]>,
}

/// An input object, parsed and as JSON.
struct Object {
    value: Value,
    body: Vec<u8>,
}

impl Query {
    fn objects(self) -> Arc<[Object]> {
        let object = |index: usize| match self {
            Self::Placement => json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": format!("shop-{index}"), "namespace": documents::namespace(index),
                    "annotations": {"requires-pci": "true"}},
                "spec": documents::pod(index, Variety::Different)["spec"],
            }),
            Self::Deny => {
                let pod = documents::pod(index, Variety::Different);
                json!({
                    "request": {"operation": "UPDATE", "name": pod["metadata"]["name"],
                        "namespace": pod["metadata"]["namespace"]},
                    "reviewed": ["pods", pod["metadata"]["namespace"], pod["metadata"]["name"], pod],
                })
            }
            Self::Review => admission_review(["", "v1", "pods"], &documents::pod(index, Variety::Different)),
            Self::ReviewOfIngress(count) => {
                let mut ingress = documents::ingress(index);
                ingress["spec"] = documents::ingress((index + 1) % count.max(1))["spec"].clone();
                admission_review(["networking.k8s.io", "v1", "ingresses"], &ingress)
            }
        };
        let objects = (0..OBJECTS).map(object);
        objects.map(|value| Object { body: value.to_string().into_bytes(), value }).collect()
    }
}

/// An AdmissionReview for creating an object; the array has group, version and plural.
fn admission_review([group, version, resource]: [&str; 3], object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0000aaaa-1111-2222-3333-444455556666",
            "kind": {"group": group, "version": version, "kind": object["kind"]},
            "resource": {"group": group, "version": version, "resource": resource},
            "operation": "CREATE", "dryRun": false,
            "namespace": metadata["namespace"], "name": metadata["name"],
            "userInfo": {"username": "jane", "groups": ["dev", "system:authenticated"]},
            "object": object, "oldObject": null,
        },
    })
}

/// Starts an OPA server with these modules and data, and creates an engine that queries the server.
pub(super) async fn in_opa(bundle: &Bundle, data: Value) -> Result<(Server, Engine)> {
    let server = Server::start().await?;
    let opa = Opa::new(JsonClient::new(server.url().parse()?, CredentialFiles::default())?, false, None);
    let engine = Evaluator::Opa(opa.clone()).engine(bundle)?.with_data(data.into())?;
    let contents = engine.opa_engine().context("the engine is not OPA")?.contents().clone();
    push(&opa, bundle, None, &contents).await.context("pushing to OPA")?;
    Ok((server, engine))
}

impl QueryArm {
    pub(super) fn new(engine: Engine, question: Query) -> Self {
        Self { snapshot: Snapshot::new(engine, BTreeMap::new()), question, objects: question.objects() }
    }

    /// The duration of one query.
    fn time(&self, object: &Object) -> Result<Duration> {
        let Object { value, body } = object;
        let began = Instant::now();
        match self.question {
            Query::Placement => drop(black_box(evaluation::evaluate(&self.snapshot, value, value)?)),
            Query::Deny => {
                drop(black_box(self.snapshot.query_value(
                    ADMISSION.0,
                    ADMISSION.1,
                    &value.clone().into(),
                )?));
            }
            Query::Review | Query::ReviewOfIngress(_) => drop(black_box(self.review(body)?)),
        }
        Ok(began.elapsed())
    }

    /// The response body for a request body.
    fn review(&self, body: &[u8]) -> Result<Vec<u8>> {
        let admission_review = AdmissionReview::read(body).map_err(Error::msg)?;
        let request = admission_review.request().map_err(Error::msg)?;
        let reviewed = review(&self.snapshot, &request, &admission_review, AdmissionPhase::Mutating)?;
        Ok(admission_review.response(&reviewed.verdict).to_string().into_bytes())
    }

    fn answer(&self, object: &Object) -> Result<Value> {
        let Object { value, body } = object;
        match self.question {
            Query::Placement => match evaluation::evaluate(&self.snapshot, value, value)? {
                PlacementDecision::Placed(placed) if placed != *value => Ok(placed),
                other => bail!("the app is not placed: {other:?}"),
            },
            Query::Deny => {
                let denied = self.snapshot.query_value(ADMISSION.0, ADMISSION.1, &value.clone().into())?;
                match serde_json::to_value(denied).context("parsing the result")? {
                    Value::Array(denied) if !denied.is_empty() => Ok(Value::Array(denied)),
                    other => bail!("the object is not denied: {other}"),
                }
            }
            Query::Review | Query::ReviewOfIngress(_) => {
                let answer: Value =
                    serde_json::from_slice(&self.review(body)?).context("parsing the response")?;
                match answer["response"]["status"]["code"] == 403 {
                    true => Ok(answer),
                    false => bail!("the object is not denied: {answer}"),
                }
            }
        }
    }

    /// Fails if `other` has different results. Blocks the thread.
    pub(super) fn agrees(&self, other: &Self) -> Result<()> {
        for object in self.objects.iter() {
            let (one, other) = (self.answer(object)?, other.answer(object)?);
            if one != other {
                bail!("{:?}: {one} differs from {other}", self.question);
            }
        }
        Ok(())
    }
}

/// Runs `arms` in turns, every other turn in reverse order. Returns the query durations of each arm in
/// milliseconds. Blocks the thread.
pub(super) fn take_turns(arms: &[QueryArm], turns: usize) -> Result<Vec<Sample>> {
    let mut took = vec![Vec::with_capacity(turns * TURN); arms.len()];
    for turn in 0..WARM_UP + turns {
        let order: Vec<usize> =
            if turn % 2 == 0 { (0..arms.len()).collect() } else { (0..arms.len()).rev().collect() };
        for arm in order {
            for object in arms[arm].objects.iter().cycle().skip(turn * TURN % OBJECTS).take(TURN) {
                let time = arms[arm].time(object)?;
                if turn >= WARM_UP {
                    took[arm].push(time.as_secs_f64() * 1_000.0);
                }
            }
        }
    }
    Ok(took.into_iter().map(Sample::new).collect())
}

/// Median and 99th percentile of milliseconds as text.
pub(super) fn spread(sample: &Sample) -> String {
    format!("p50 {:.3} ms, p99 {:.3} ms", sample.median(), sample.quantile(0.99))
}
