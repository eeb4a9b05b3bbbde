//! G7: users write and read for minutes while Rego policies change every second. No request may be lost, and a
//! single version of the policies must decide each request.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use http::Request;
use kube::api::{DeleteParams, PostParams};
use kube::core::request::Request as Requests;
use kube::{Client, Error};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::wait;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::interval;

use super::authorizer::{Authorizer, client_of};
use super::pods;
use crate::Options;
use crate::documents::PODS;
use crate::hub::{LIMIT, MeasuredHub};
use crate::pace::at_rate;
use crate::rego_policies;
use crate::report::{Measure, progress};
use crate::sample::{self, Sample};
use crate::usage::Memory;

/// The namespace of the requests.
const NAMESPACE: &str = "traffic";
/// The user of the requests.
const USER: &str = "jane";
/// Duration of the run, as a multiple of [`Options::load`].
const LONGER: usize = 5;
/// Divisor of [`Options::rate`], because the API server reviews each request up to four times.
const SLOWER: usize = 4;
/// Interval of policy changes.
const CHANGES: Duration = Duration::from_secs(1);
/// Goal for memory at the end of the run, as a multiple of the memory at the beginning.
const MEMORY_GOAL: f64 = 1.1;

/// A request with an expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Creates and deletes an allowed pod.
    Pod,
    /// Creates a pod that Rego policies deny.
    DeniedPod,
    /// Reads an object.
    Read,
    /// Reads a Secret, which a Rego policy denies.
    DeniedRead,
}

/// The defect of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Defect {
    /// There was no response.
    NoResponse,
    /// The verdict was wrong.
    WrongVerdict,
}

/// Measures lost requests, wrong verdicts, and memory.
pub(crate) async fn measure(hub: &MeasuredHub, options: &Options) -> Result<Vec<Measure>> {
    rego_policies::set_policies(hub, &modules(0)).await?;
    let authorizer = Authorizer::start(hub, NAMESPACE, modules(0).len()).await?;
    let read = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "read", "namespace": NAMESPACE}});
    apply(&hub.client, &read).await?;
    let client = client_of(hub, USER).await?;
    for step in [Step::Pod, Step::DeniedPod, Step::Read, Step::DeniedRead] {
        wait::until("the policies are enforced", LIMIT, || async {
            let wrong = step.take(&client, 0).await;
            ensure!(wrong.is_none(), "{step:?}: {wrong:?}");
            Ok(())
        })
        .await?;
    }
    let rate = options.rate.div_ceil(SLOWER);
    let count = rate * LONGER * options.load;
    progress(&format!("{rate} requests a second for {} s", LONGER * options.load));
    let mut memory = Vec::new();
    let completed = tokio::select! {
        completed = at_rate(rate, count, |number| {
            let client = client.clone();
            async move { Ok(Step::of(number).take(&client, number).await) }
        }) => completed?,
        ended = change(hub, authorizer.controller.pid(), &mut memory) => bail!("the changes ended: {ended:?}"),
    };
    authorizer.stop(hub).await?;
    let mut wrong: BTreeMap<Defect, Vec<String>> = BTreeMap::new();
    for (what, text) in completed.into_iter().filter_map(|completed| completed.value) {
        wrong.entry(what).or_default().push(text);
    }
    let row = |of: Defect, what: &str| {
        let wrong = wrong.get(&of).map(Vec::as_slice).unwrap_or_default();
        let measure = Measure::at_most("G7", what, sample::count(wrong.len()), "requests", 0.0);
        measure.detail(
            wrong
                .first()
                .cloned()
                .unwrap_or_else(|| format!("of {count}, while policies changed {} times", memory.len())),
        )
    };
    let [begins, ends] = [1..2, 9..10].map(|tenths| tenth(&memory, &tenths));
    Ok(vec![
        row(Defect::NoResponse, "lost"),
        row(Defect::WrongVerdict, "judged wrongly"),
        Measure::at_most("G7", "memory at the end, over the beginning", ends / begins, "×", MEMORY_GOAL)
            .detail(format!("{ends:.1} MiB against {begins:.1} MiB")),
    ])
}

/// The median of the values in these tenths of the run.
fn tenth(seen: &[f64], tenths: &Range<usize>) -> f64 {
    let from = (seen.len() * tenths.start / 10).min(seen.len().saturating_sub(1));
    let until = (seen.len() * tenths.end / 10).clamp(from + 1, seen.len().max(from + 1));
    Sample::new(seen.get(from..until).unwrap_or_default().iter().copied()).median()
}

/// Changes the Rego policies at the interval, and records the memory of the process `pid`.
async fn change(hub: &MeasuredHub, pid: u32, memory: &mut Vec<f64>) -> Result<()> {
    let mut every = interval(CHANGES);
    for number in 1.. {
        every.tick().await;
        rego_policies::set_policies(hub, &modules(number)).await?;
        memory.push(Memory::of_process(pid)?.resident);
    }
    Ok(())
}

/// Rego policies with constant verdicts, and with `number` in their messages: two for admission, and one for
/// authorization.
fn modules(number: usize) -> Vec<(String, String)> {
    let module = |id: &str, package: &str, kind: &str, wrong: &str| {
        let text = format!(
            r#"package {package}

import data.k8s.matches

deny[{{
	"id": "{id}",
	"resource": {{"kind": "{kind}", "namespace": namespace, "name": name}},
	"resolution": {{"message": "{id}-{number}."}},
}}] {{
	matches[["{kind}", namespace, name, object]]
	{wrong}
}}
"#
        );
        (format!("{id}.rego"), text)
    };
    let pulls = r#"object.spec.containers[_].imagePullPolicy != "Always""#;
    vec![
        module("first", "admission", "pods", pulls),
        module("second", "admission", "pods", pulls),
        module("third", "authorization", "secrets", &format!("namespace == \"{NAMESPACE}\"")),
    ]
}

impl Step {
    fn of(number: usize) -> Self {
        match number % 6 {
            0 | 1 => Self::Pod,
            2 | 3 => Self::DeniedPod,
            4 => Self::Read,
            _ => Self::DeniedRead,
        }
    }

    /// Sends the request as `client`. Returns the defect of the response, if any.
    async fn take(self, client: &Client, number: usize) -> Option<(Defect, String)> {
        match self.ask(client, number).await {
            Ok(()) if matches!(self, Self::Pod | Self::Read) => None,
            Ok(()) => Some((Defect::WrongVerdict, format!("{self:?} is admitted"))),
            Err(Error::Api(status)) if self.is_denied_by(&status.message) => None,
            Err(Error::Api(status)) if status.code == 403 => Some((Defect::WrongVerdict, status.message)),
            Err(error) => Some((Defect::NoResponse, format!("{self:?}: {error}"))),
        }
    }

    async fn ask(self, client: &Client, number: usize) -> Result<(), Error> {
        let read =
            |path: &str| Request::get(format!("/api/v1/namespaces/{NAMESPACE}/{path}")).body(Vec::new());
        let pods = Requests::new(PODS.within(NAMESPACE));
        let create = |pod: serde_json::Value| {
            pods.create(&PostParams::default(), pod.to_string().into_bytes()).map_err(Error::BuildRequest)
        };
        match self {
            Self::Pod => {
                let pod = pods::fine(NAMESPACE, number);
                client.request::<IgnoredAny>(create(pod.clone())?).await?;
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                let delete = pods.delete(name, &DeleteParams::default()).map_err(Error::BuildRequest)?;
                client.request::<IgnoredAny>(delete).await.map(drop)
            }
            Self::DeniedPod => {
                client.request::<IgnoredAny>(create(pods::denied(NAMESPACE, number))?).await.map(drop)
            }
            Self::Read => client
                .request::<IgnoredAny>(read("configmaps/read").map_err(Error::HttpError)?)
                .await
                .map(drop),
            Self::DeniedRead => client
                .request::<IgnoredAny>(read("secrets/closed").map_err(Error::HttpError)?)
                .await
                .map(drop),
        }
    }

    /// Whether the message is a denial by a single version of the Rego policies.
    fn is_denied_by(self, message: &str) -> bool {
        let number = |id: &str| {
            let (_, rest) = message.split_once(&format!("{id}-"))?;
            rest.split_once('.').map(|(number, _)| number.to_owned())
        };
        match self {
            Self::DeniedPod => number("first").is_some() && number("first") == number("second"),
            Self::DeniedRead => number("third").is_some(),
            Self::Pod | Self::Read => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_by_two_versions_of_policies_is_wrong() {
        let denied = Step::DeniedPod;
        assert!(denied.is_denied_by("first: first-7.; second: second-7."));
        assert!(!denied.is_denied_by("first: first-7.; second: second-8."));
        assert!(!denied.is_denied_by("first: first-7."));
        assert!(!Step::Pod.is_denied_by("first: first-7.; second: second-7."));
    }

    #[test]
    fn tenth_of_few_values_is_one_value() {
        assert_eq!(tenth(&[1.0, 2.0, 3.0], &(1..2)), 1.0);
        assert_eq!(tenth(&[1.0, 2.0, 3.0], &(9..10)), 3.0);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!((tenth(&many, &(1..2)), tenth(&many, &(9..10))), (14.5, 94.5));
    }
}
