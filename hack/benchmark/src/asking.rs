//! Questions to an engine of policies, as the handlers of webhooks ask them, in turn.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use policy_sync::placement::question::{self, Said};
use policy_sync::rego::engine::Engine;
use policy_sync::rego::snapshot::Snapshot;
use serde_json::{Value, json};

use super::documents::{self, Variety};
use super::sample::Sample;

/// How many objects are asked about, one after the other.
const OBJECTS: usize = 64;
/// How many questions an arm is asked in its turn: an engine is not measured with another's data in the caches.
const TURN: usize = 50;
/// How many turns it has before they count.
const WARM_UP: usize = 4;

/// What policies that deny are asked for, and how.
const ADMISSION: (&str, &str) = ("admission", "data.admission.deny");

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Where an app goes.
    Placement,
    /// Whether a pod may be written.
    Deny,
}

/// Who is asked what.
pub(super) struct Arm {
    snapshot: Snapshot,
    question: Question,
    objects: Arc<[Value]>,
}

impl Question {
    fn objects(self) -> Arc<[Value]> {
        let object = |index| match self {
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
        };
        (0..OBJECTS).map(object).collect()
    }
}

impl Arm {
    pub(super) fn new(engine: Engine, question: Question) -> Self {
        Self { snapshot: Snapshot::new(engine, BTreeMap::new()), question, objects: question.objects() }
    }

    /// How long an answer takes, from a review's JSON.
    fn time(&self, object: &Value) -> Result<Duration> {
        let began = Instant::now();
        match self.question {
            Question::Placement => drop(black_box(question::ask(&self.snapshot, object, object)?)),
            Question::Deny => {
                drop(black_box(self.snapshot.ask(ADMISSION.0, ADMISSION.1, &object.clone().into())?));
            }
        }
        Ok(began.elapsed())
    }

    fn answer(&self, object: &Value) -> Result<Value> {
        match self.question {
            Question::Placement => match question::ask(&self.snapshot, object, object)? {
                Said::Placed(placed) if placed != *object => Ok(placed),
                said => bail!("the app is not placed: {said:?}"),
            },
            Question::Deny => {
                let denied = self.snapshot.ask(ADMISSION.0, ADMISSION.1, &object.clone().into())?;
                match serde_json::to_value(denied).context("reading an answer")? {
                    Value::Array(denied) if !denied.is_empty() => Ok(Value::Array(denied)),
                    other => bail!("nothing is denied: {other}"),
                }
            }
        }
    }

    /// Fails where `other` does not give the same answers. On a thread that may wait.
    pub(super) fn agrees(&self, other: &Self) -> Result<()> {
        for object in self.objects.iter() {
            let (one, other) = (self.answer(object)?, other.answer(object)?);
            if one != other {
                bail!("{:?}: {one} is not {other}", self.question);
            }
        }
        Ok(())
    }
}

/// Asks all of `arms` in so many turns, every other time in the opposite order, and returns how long an answer of each takes, in
/// milliseconds. On a thread that may wait.
pub(super) fn take_turns(arms: &[Arm], turns: usize) -> Result<Vec<Sample>> {
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

/// Two quantiles of milliseconds, as text.
pub(super) fn spread(sample: &Sample) -> String {
    format!("p50 {:.3} ms, p99 {:.3} ms", sample.median(), sample.quantile(0.99))
}
