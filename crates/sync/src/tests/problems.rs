//! Compares the effects of each problem with the table in `docs/reference/problems.md`.

use std::collections::{BTreeMap, BTreeSet};

use crate::Problem;
use crate::explain::advice;
use crate::problem::{PausedObject, SecretFault};
use crate::rows::kind::Resolution;
use crate::testing::objects::{CLASS, gateway_origin, policy_origin};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::CLUSTER_SELECTOR;
use policy_sync_api::names::{GroupVersionResource, ObjectKey};

/// The kind of object that can have a problem.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Of {
    Policies,
    Gateways,
    Both,
}

/// An example of the problem that follows `last`. The match is exhaustive, so a new problem cannot be forgotten.
fn next(last: Option<&Problem>) -> Option<(Problem, Of)> {
    let text = || "fault".to_owned();
    let gvr = GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies");
    let secret =
        |fault| Problem::SecretLeftOut { listener: "https".into(), secret: "shop/web".into(), fault };
    Some(match last {
        None => (bad_selector(text()), Of::Both),
        Some(Problem::BadSelector { .. }) => {
            (Problem::BadOverrides { place: String::new(), fault: text() }, Of::Policies)
        }
        Some(Problem::BadOverrides { .. }) => {
            (Problem::BadPreferences { place: String::new(), fault: text() }, Of::Policies)
        }
        Some(Problem::BadPreferences { .. }) => (Problem::NoReplicas, Of::Policies),
        Some(Problem::NoReplicas) => (Problem::ReplicasLeftOut { left_out: 2, total: 4 }, Of::Policies),
        Some(Problem::ReplicasLeftOut { .. }) => (Problem::BadSpec(text()), Of::Both),
        Some(Problem::BadSpec(_)) => {
            (Problem::BadReference { place: "targetRef".into(), fault: text() }, Of::Policies)
        }
        Some(Problem::BadReference { .. }) => {
            (Problem::ForeignReference(ObjectKey::new("other", "web")), Of::Policies)
        }
        Some(Problem::ForeignReference(_)) => {
            let (namespace, downstream) = ("shop".to_owned(), "kuadrant-shop".to_owned());
            (Problem::DownstreamNamespace { namespace, downstream, fault: "is reserved" }, Of::Both)
        }
        Some(Problem::DownstreamNamespace { .. }) => {
            (Problem::VersionConflict { gvr, held: "v2".into(), class: CLASS.into() }, Of::Policies)
        }
        Some(Problem::VersionConflict { .. }) => {
            (Problem::KindNotResolved { gvr, fault: text() }, Of::Policies)
        }
        Some(Problem::KindNotResolved { .. }) => {
            (Problem::InvalidParameters { class: CLASS.into(), fault: text() }, Of::Both)
        }
        Some(Problem::InvalidParameters { .. }) => {
            (Problem::ParametersUnread { class: CLASS.into(), fault: text() }, Of::Both)
        }
        Some(Problem::ParametersUnread { .. }) => (Problem::ClassGone(CLASS.into()), Of::Both),
        Some(Problem::ClassGone(_)) => {
            let (bytes, limit) = (40_128_000, 33_554_432);
            (Problem::CopiesTooLarge { copies: 64, bytes, limit }, Of::Both)
        }
        Some(Problem::CopiesTooLarge { .. }) => {
            (Problem::TooLarge { bytes: 600_000, limit: 512_000 }, Of::Both)
        }
        Some(Problem::TooLarge { .. }) => {
            (Problem::BadGraceTimeout { found: text(), used: 600 }, Of::Gateways)
        }
        Some(Problem::BadGraceTimeout { .. }) => {
            (Problem::GraceTooLong { requested: 7_200, class: CLASS.into(), used: 3_600 }, Of::Gateways)
        }
        Some(Problem::GraceTooLong { .. }) => {
            (Problem::ForeignWork { cluster: "eu-1".into(), name: "limits".into() }, Of::Both)
        }
        Some(Problem::ForeignWork { .. }) => (Problem::PoliciesPending, Of::Gateways),
        Some(Problem::PoliciesPending) => (Problem::OtherController("policy-sync-0".into()), Of::Both),
        Some(Problem::OtherController(_)) => {
            let other = ObjectKey::new("shop", "zzz");
            (Problem::OutOfOrder { other, is_older: false, clusters: "eu-1".into() }, Of::Policies)
        }
        Some(Problem::OutOfOrder { .. }) => (secret(SecretFault::Missing), Of::Gateways),
        Some(Problem::SecretLeftOut { fault, .. }) => match fault {
            SecretFault::Missing => (secret(SecretFault::NotGranted), Of::Gateways),
            SecretFault::NotGranted => (secret(SecretFault::Namespace), Of::Gateways),
            SecretFault::Namespace => (Problem::MoreSecretsLeftOut(3), Of::Gateways),
        },
        Some(Problem::MoreSecretsLeftOut(_)) => {
            (Problem::SecretsUnread { what: "secrets".into(), fault: text() }, Of::Gateways)
        }
        Some(Problem::SecretsUnread { .. }) => (Problem::Paused(PausedObject::Itself), Of::Both),
        Some(Problem::Paused(_)) => {
            (Problem::BadPaused { of: PausedObject::Itself, found: "yes".into() }, Of::Both)
        }
        Some(Problem::BadPaused { .. }) => (Problem::Unread("ratelimitpolicies".into()), Of::Both),
        Some(Problem::Unread(_)) => return None,
    })
}

/// An invalid cluster selector.
pub(crate) fn bad_selector(fault: String) -> Problem {
    Problem::BadSelector { annotation: CLUSTER_SELECTOR, place: String::new(), fault }
}

pub(super) fn problems() -> Vec<(Problem, Of)> {
    let mut all: Vec<(Problem, Of)> = Vec::new();
    while let Some(problem) = next(all.last().map(|(problem, _)| problem)) {
        all.push(problem);
    }
    all
}

/// The cells of a row that the code determines. The cells are: whether an Event and a metric have the name of the
/// problem, the condition of a Gateway, and the object that `explain` names.
fn decided(world: &World, (problem, of): &(Problem, Of)) -> [String; 3] {
    let (origin, kind, subject) = match of {
        Of::Gateways => (gateway_origin("web"), "Gateway", "Gateway shop/web"),
        Of::Policies | Of::Both => {
            (policy_origin("limits"), "RateLimitPolicy", "RateLimitPolicy shop/limits")
        }
    };
    let reported_in = if problem.passes() { "none" } else { "both" };
    let condition = match problem {
        _ if *of == Of::Policies => "–",
        Problem::PoliciesPending => "`Programmed=False`",
        problem if problem.passes() => "none",
        problem if problem.is_unknown() => "`Accepted=Unknown`",
        problem if problem.freezes() => "`Accepted=False`",
        Problem::OtherController(_) => "none",
        // `ForeignWork` concerns single clusters, so the message of `Programmed` contains it with the cluster's name.
        Problem::ForeignWork { .. } => "in the message of `Programmed`",
        _ => "in the message of `Accepted`",
    };
    let advice = world.see(|view| advice(view, &world.settings, &origin, kind, problem));
    let names = [
        (subject, "its"),
        ("ConfigMap params/multi key params", "the class's parameters"),
        ("GatewayClass multi", "the GatewayClass"),
        ("ratelimitpolicies.kuadrant.io", "of its kind"),
        ("Namespace shop", "its Namespace"),
        ("Secret shop/web", "the Secret"),
        ("ManifestWork eu-1/limits", "the ManifestWork"),
        ("RateLimitPolicy shop/zzz", "the younger policy"),
    ];
    let shown =
        |place: &String| names.iter().fold(place.clone(), |place, (name, word)| place.replace(name, word));
    let advice: Vec<String> = advice.iter().map(shown).collect();
    [
        reported_in.to_owned(),
        condition.to_owned(),
        if advice.is_empty() { "–".into() } else { advice.join("; ") },
    ]
}

/// The cells of each row of the table, by the first cell of the row.
fn table() -> BTreeMap<String, Vec<String>> {
    let page = include_str!("../../../../docs/reference/problems.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| category |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    rows.map(cells).map(|row| (row[1].trim_matches('`').to_owned(), row[2..7].to_vec())).collect()
}

#[test]
fn table_of_problems_matches_the_code() {
    let world = shop(&["eu-1"]);
    let table = table();
    for found in problems() {
        let category = found.0.category();
        let row = table.get(category).unwrap_or_else(|| panic!("{category} is not in the table"));
        let decided = decided(&world, &found);
        assert_eq!(row[1..4], decided, "{category}");
        assert!(!row[0].is_empty() && !row[4].is_empty(), "{category} has an empty cell");
    }
    let known: Vec<&str> = problems().iter().map(|(problem, _)| problem.category()).collect();
    let unknown: Vec<&String> = table.keys().filter(|category| !known.contains(&category.as_str())).collect();
    assert!(unknown.is_empty(), "there is no {unknown:?}");
}

#[test]
fn metrics_export_every_category_from_the_start() {
    let exported = problems().into_iter().map(|(problem, _)| problem).filter(|problem| !problem.passes());
    let exported: BTreeSet<(&str, bool)> =
        exported.map(|problem| (problem.category(), problem.freezes())).collect();
    assert_eq!(exported, Problem::CATEGORIES.into());
}

#[test]
fn explain_names_a_missing_permission_of_the_controller() {
    let world = shop(&["eu-1"]).resolution("ratelimitpolicies", Resolution::Forbidden("no".into()));
    let gvr = GroupVersionResource::new("kuadrant.io", "v1", "ratelimitpolicies");
    let problem = Problem::KindNotResolved { gvr, fault: "no".to_owned() };
    let limits = policy_origin("limits");
    assert_eq!(
        world.see(|view| advice(view, &world.settings, &limits, "RateLimitPolicy", &problem)),
        ["the controller's rights to get, list, watch and patch ratelimitpolicies.kuadrant.io"]
    );
}
