//! Tests that all outputs (annotations, status, explain, effective, web pages, metrics) use the same word for
//! each state of a policy.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::view::{Rows, View};
use crate::cli::effective::clusters::text;
use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_controller::sync::metrics::measured;
use policy_sync_report::fleet_objects_from_view;
use policy_sync_report::testing::report;
use policy_sync_report::{
    Check, FailOn, FleetObjects, FleetObjectsQuery, Item, ObjectExplanation, PolicyReport,
};
use policy_sync_sync::explain::{Unavailable, explain};
use policy_sync_sync::status::policy::{Fold, plan};
use policy_sync_sync::testing::objects::{
    class, cluster, decision, deployment, deployment_origin, gateway, listing, placement, policy,
    policy_origin, resource_listing,
};
use policy_sync_sync::testing::reports::{TestReport, applied, refused};
use policy_sync_sync::testing::world::{World, shop, world};
use policy_sync_topology::show::{ClustersReport, Scope};
use policy_sync_web::{self as web, EffectivePage, EffectiveQuery, EffectiveResult, Notices, PolicyPage};

const CLUSTER: &str = "eu-1";

/// A hub with an object on one cluster.
struct Case {
    world: World,
    origin: Origin,
    kind: &'static str,
    role: Role,
    is_unavailable: bool,
}

impl Case {
    /// The policy `limits`, on which the cluster has not reported.
    fn new() -> Self {
        let listener = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
        let web = gateway("web").placed_on("all").spec("listeners", listener);
        let limits = policy("limits").targets("web");
        let world = shop(&[CLUSTER]).with(cluster(CLUSTER)).with(web).with(limits).written();
        let origin = policy_origin("limits");
        Self { world, origin, kind: "RateLimitPolicy", role: Role::Policy, is_unavailable: false }
    }

    fn with_report(self, report: &TestReport) -> Self {
        let world = self.world.edited(&self.origin, CLUSTER, |work| work["status"] = report.status(work));
        Self { world, ..self }
    }

    fn with_condition(self, name: &str, status: &str, reason: &str, message: &str) -> Self {
        self.with_report(&applied().observed(1).condition(name, status, reason, message))
    }

    fn enforced(self) -> Self {
        self.with_condition("Enforced", "True", "Enforced", "")
    }

    /// A Deployment that the cluster has applied.
    fn resource() -> Self {
        let world = world()
            .class("multi", &resource_listing(None))
            .resource("apps", "deployments", "Deployment")
            .decisions("all", &[CLUSTER])
            .with(cluster(CLUSTER))
            .after(60_000)
            .with(deployment("web").placed_on("all"));
        let origin = deployment_origin("web");
        let world = world.settled(std::slice::from_ref(&origin));
        let case = Self { world, origin, kind: "Deployment", role: Role::Resource, is_unavailable: false };
        case.with_report(&applied())
    }

    fn of(state: PolicyState) -> Self {
        let new = Self::new();
        match state {
            PolicyState::Rejected => new.with_condition("Accepted", "False", "Conflicted", "an older policy"),
            PolicyState::NotEnforced => new.with_condition("Enforced", "False", "MissingResource", "no wasm"),
            PolicyState::NotApplied => new.with_report(&refused("conflict")),
            PolicyState::Frozen => {
                let case = new.enforced();
                let frozen = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "((");
                Self { world: case.world.with(frozen), ..case }
            }
            PolicyState::PartiallyEnforced => {
                let message = "RateLimitPolicy has been partially enforced";
                new.with_condition("Enforced", "True", "Enforced", message)
            }
            PolicyState::Pending => new,
            PolicyState::Unreachable => Self { is_unavailable: true, ..new.enforced() },
            PolicyState::Unknown => new.with_report(&applied()),
            PolicyState::Removing => {
                let elsewhere =
                    policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=us");
                let world = new.world.with(elsewhere).terminating(&new.origin, CLUSTER);
                Self { world, ..new }
            }
            PolicyState::Overridden => {
                new.with_condition("Enforced", "False", "Overridden", "by kuadrant-shop/local")
            }
            PolicyState::Accepted => new.with_condition("Accepted", "True", "Accepted", ""),
            PolicyState::Applied => Self::resource(),
            PolicyState::Enforced => new.enforced(),
        }
    }

    fn annotations(&self) -> Vec<(&'static str, String)> {
        let fold = self.world.see(|view| plan(view, &self.world.settings, &self.origin)).fold;
        let Fold::Write { annotations, .. } = fold else { panic!("nothing to write: {fold:?}") };
        annotations.into_iter().collect()
    }

    fn report(&self) -> PolicyReport {
        let annotations = self.annotations();
        let texts: Vec<(&str, &str)> = annotations.iter().map(|(key, text)| (*key, &**text)).collect();
        let unavailable = self.is_unavailable.then(|| ClusterName::from(CLUSTER));
        let mut report = report(&texts);
        report.role = self.role;
        report.unavailable = Arc::new(unavailable.into_iter().collect());
        report
    }

    fn unavailable(&self) -> Unavailable {
        self.is_unavailable.then(|| (ClusterName::from(CLUSTER), Moment(1))).into_iter().collect()
    }

    /// The report of `effective --clusters`.
    fn effective(&self) -> ClustersReport {
        let scope = Scope::default();
        let FleetObjects { objects, fleet, .. } = self.world.see(|view| {
            let query = FleetObjectsQuery { settings: &self.world.settings, cluster: None, scope: &scope };
            fleet_objects_from_view(view, query, &self.unavailable())
        });
        ClustersReport::new(&objects, &fleet, &scope, None, Vec::new())
    }

    fn explanation(&self) -> ObjectExplanation {
        let unavailable = self.unavailable();
        let explanation =
            self.world.see(|view| explain(view, &self.world.settings, &self.origin, self.kind, &unavailable));
        ObjectExplanation::new(self.origin.clone(), self.kind, explanation, false)
    }
}

/// The words of states in `text`.
fn words(text: &str) -> Vec<&'static str> {
    let letters = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let found: BTreeSet<&str> = letters.collect();
    PolicyState::ALL.map(PolicyState::as_str).into_iter().filter(|word| found.contains(word)).collect()
}

/// The cell below the header `STATE`.
fn state_cell(case: &Case, rows: Rows) -> String {
    let view = View {
        rows,
        namespaces: false,
        wide: true,
        differences: None,
        item_filter: None,
        out_of_sync_times: None,
    };
    let table =
        view.tables(&[Item::from(case.report())], "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap(), None);
    let mut lines = table.lines();
    let place = lines.next().unwrap().find("STATE").unwrap();
    lines.next().unwrap()[place..].split_whitespace().next().unwrap().to_owned()
}

/// The states that the summary annotation counts. Its key `pending` counts all clusters that have not
/// reported.
fn summary_words(case: &Case) -> Vec<&'static str> {
    let annotations = case.annotations();
    let (_, text) = annotations.iter().find(|(key, _)| *key == POLICIES_SYNCED_SUMMARY).unwrap();
    let summary: Value = serde_json::from_str(text).unwrap();
    let keys = [
        ("rejected", "Rejected"),
        ("notEnforced", "NotEnforced"),
        ("frozen", "Frozen"),
        ("partial", "PartiallyEnforced"),
        ("unknown", "Unknown"),
        ("overridden", "Overridden"),
        ("pending", "Pending"),
        ("enforced", "Enforced"),
    ];
    keys.into_iter().filter(|(key, _)| summary[*key] == 1).map(|(_, word)| word).collect()
}

/// Checks the JSON and the text of `effective --clusters`, and the web page.
fn effective_has_the_word(case: &Case, word: &str) {
    let report = case.effective();
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["answers"][0]["policies"][0]["state"], word, "JSON of effective: {json:#}");

    let lines = text(&report);
    let line = lines.iter().find_map(|line| line.trim().strip_prefix("RateLimitPolicy shop/limits: "));
    let words: Vec<&str> = line.unwrap().split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    assert_eq!(words[0], word, "effective: {lines:#?}");

    let page = EffectivePage {
        hub: String::new(),
        notices: Notices::default(),
        query: EffectiveQuery::default(),
        clusters: Vec::new(),
        gateways: Vec::new(),
        result: Some(Ok(EffectiveResult::Clusters(report))),
    };
    let page = web::effective(&page).into_string();
    let cells: Vec<&str> = page.split("<span class=\"state ").skip(1).collect();
    assert_eq!(cells.len(), 1, "{word}: {page}");
    assert_eq!(self::words(cells[0].split_once("</span>").unwrap().0), [word], "web page of effective");
}

#[test]
fn every_output_uses_the_same_word_for_a_state() {
    for state in PolicyState::ALL {
        let (case, word) = (Case::of(state), state.as_str());

        let expected = match state {
            // The summary also counts the condition `Enforced` of a policy in this state.
            PolicyState::Frozen | PolicyState::PartiallyEnforced => vec![word, "Enforced"],
            PolicyState::NotApplied | PolicyState::Removing => vec!["Pending"],
            // The annotations do not show availability.
            PolicyState::Unreachable => vec!["Enforced"],
            PolicyState::Accepted | PolicyState::Applied => vec![],
            _ => vec![word],
        };
        assert_eq!(summary_words(&case), expected, "{word}: summary");

        assert_eq!(case.report().json()["states"][CLUSTER], word, "{word}: JSON of status");
        for rows in [Rows::Policies, Rows::Clusters, Rows::OnCluster(CLUSTER.to_owned())] {
            assert_eq!(state_cell(&case, rows.clone()), word, "{rows:?} of status");
        }

        let explanation = case.explanation();
        assert_eq!(explanation.json()["groups"][0]["state"], word, "JSON of explain");
        assert_eq!(explanation.groups[0].title(), format!("{word} on {CLUSTER}:"), "explain");

        let expected = FailOn::default().check_state(state);
        assert_eq!(Item::from(case.report()).check(None, FailOn::default()), expected, "{word}: status");
        // In this state, the policy is planned for no cluster.
        if state != PolicyState::Removing {
            assert_eq!(explanation.check(), expected, "{word}: explain");
        }

        // Resources have no rules.
        if state != PolicyState::Applied {
            effective_has_the_word(&case, word);
        }

        let (hub, notices, report) = (String::new(), Notices::default(), case.report());
        let shown =
            PolicyPage { hub, notices, report, on_hub: None, is_explained: false, why: None, skip: 0 };
        let page = web::policy(&shown).into_string();
        let table = page.split_once("id=\"clusters\"").unwrap().1.split_once("</table>").unwrap().0;
        let cells: Vec<&str> = table.split("<span class=\"state ").skip(1).collect();
        assert_eq!(cells.len(), 1, "{word}: {table}");
        assert_eq!(words(cells[0].split_once("</span>").unwrap().0), [word], "{word}: web");
        assert_eq!(
            cells[0].starts_with("good"),
            state == PolicyState::Enforced,
            "{word}: only this is green"
        );

        let metrics = measured(&case.world, &case.origin);
        let series =
            metrics.lines().filter_map(|line| line.strip_prefix("policy_sync_policy_clusters{state=\""));
        let counted = series.filter_map(|line| line.strip_suffix("\"} 1"));
        let expected = match state {
            PolicyState::Unreachable => vec!["Enforced"],
            PolicyState::Applied => vec![],
            _ => vec![word],
        };
        assert_eq!(counted.collect::<Vec<_>>(), expected, "{word}: metric");
    }
}

/// The cluster lacks the policy until the old work is deleted and the new one is applied.
#[test]
fn policy_that_is_planned_again_is_pending_while_its_old_work_is_removed() {
    let case = Case::new().enforced();
    let case = Case { world: case.world.terminating(&case.origin, CLUSTER), ..case };
    let report = case.report();
    assert_eq!(report.json()["states"][CLUSTER], "Pending");
    assert_eq!(report.missing(), Some(vec![CLUSTER]));
    assert_eq!(Item::from(report).check(None, FailOn::OutOfSync), Check::Failed);
    let explanation = case.explanation();
    assert_eq!(explanation.groups[0].title(), format!("Pending on {CLUSTER}:"));
    assert_eq!(explanation.groups[0].verdict.reasons[0].code, "Leaving");
    assert_eq!(explanation.check(), Check::Failed);
    assert!(measured(&case.world, &case.origin).contains("policy_clusters{state=\"Pending\"} 1"));
}

/// The ManagedCluster whose labels select the policy is gone, so the copy is left unchanged.
#[test]
fn explain_and_status_have_the_same_exit_code_if_cluster_labels_are_unknown() {
    let limits = || policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=eu");
    let case = Case::new();
    let world = case.world.with(cluster(CLUSTER).label("region", "eu")).with(limits()).written();
    let case = Case { world, ..case }.enforced();
    let objects = vec![
        class("multi"),
        gateway("web").placed_on("all"),
        placement("all").selects(1),
        decision("all", "all-1", &[CLUSTER]),
    ];
    let world = case.world.restarted(objects).params("multi", &listing(&["ratelimitpolicies"]).to_string());
    let world = world.kind("ratelimitpolicies", "RateLimitPolicy").with(limits()).after(60_000);
    let case = Case { world, origin: case.origin, ..Case::new() };
    let explanation = case.explanation();
    assert_eq!(explanation.groups[0].verdict.reasons[0].code, "UnknownLabels");
    assert_eq!(explanation.groups[0].title(), format!("Enforced on {CLUSTER}:"));
    let checks = [explanation.check(), Item::from(case.report()).check(None, FailOn::default())];
    assert_eq!(checks, [Check::Passed; 2]);
}

/// The state on other clusters that have not applied the policy does not matter.
#[test]
fn removing_passes_on_a_cluster_while_another_one_is_pending() {
    let entry = |cluster: &str, rest: &str| {
        format!(r#"{{"cluster":"{cluster}","name":"limits","namespace":"n",{rest}}}"#)
    };
    let entries = [entry("eu-1", r#""deleting":true"#), entry("us-1", r#""pending":true"#)];
    let report = report(&[
        (POLICIES_SYNCED, &format!("[{}]", entries.join(","))),
        (
            POLICIES_SYNCED_SUMMARY,
            r#"{"clusters":2,"applied":0,"enforced":0,"overridden":0,"pending":2,"synced":false}"#,
        ),
    ]);
    let item = Item::from(report);
    let checks = ["eu-1", "us-1"].map(|cluster| item.check(Some(cluster), FailOn::default()));
    assert_eq!(checks, [Check::Passed, Check::Failed]);
}

#[test]
fn documentation_lists_each_state_with_its_exit_code() {
    let page = include_str!("../../../docs/status.md");
    for state in PolicyState::ALL {
        let begin = format!("| `{}` | {} |", state.as_str(), state.meaning());
        let row = page.lines().find(|line| line.starts_with(&begin));
        let row = row.unwrap_or_else(|| panic!("docs/status.md has no row {begin}"));
        let code = match FailOn::default().check_state(state) {
            Check::Passed => 0,
            Check::Failed => 1,
            Check::Unknown => 2,
        };
        assert!(row.ends_with(&format!("| {code} |")), "{row}");
    }
}
