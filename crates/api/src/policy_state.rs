//! The state of a policy on a cluster, as [`PolicyState::of`] determines it. The summary annotation, `status`,
//! `explain`, the web page and metrics all use it.

use serde::Serialize;

use super::annotations::{ENFORCED, Synced, SyncedCondition};
use super::generators::PolicyKindNames;
use super::names::GroupResource;
use super::params::Role;

/// The condition of a copy that reports whether its controller accepts it.
pub const ACCEPTED: &str = "Accepted";

/// The text by which a controller reports that it enforces a policy on only some of the targets.
#[derive(Clone, Copy, Debug)]
pub struct PartialWording {
    /// The kind of the policy.
    pub kind: PolicyKindNames,
    /// The versions of the controller that write this text.
    pub versions: &'static str,
    /// A part of the condition's message.
    pub text: &'static str,
}

/// The known wordings. Controllers report no reason code for partial enforcement, so [`PolicyState::PartiallyEnforced`]
/// is derived from the message. For other kinds, `Enforced=True` is always [`PolicyState::Enforced`].
///
/// Source: Kuadrant operator, `EnforcedCondition` in `internal/kuadrant/conditions.go` and its callers, the status
/// updaters of these kinds. The operator never reports partial enforcement of TLSPolicies or of the kinds of
/// `extensions.kuadrant.io`.
pub const PARTIAL_WORDINGS: [PartialWording; 4] = [
    kuadrant("authpolicies", "AuthPolicy", "1.0 to 1.5"),
    kuadrant("dnspolicies", "DNSPolicy", "1.0 to 1.5"),
    kuadrant("ratelimitpolicies", "RateLimitPolicy", "1.0 to 1.5"),
    kuadrant("tokenratelimitpolicies", "TokenRateLimitPolicy", "1.3 to 1.5"),
];

const fn kuadrant(resource: &'static str, kind: &'static str, versions: &'static str) -> PartialWording {
    let kind = PolicyKindNames::new("kuadrant.io", resource, kind);
    PartialWording { kind, versions, text: "has been partially enforced" }
}

/// The state of a policy on a cluster, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum PolicyState {
    /// The policy's controller on the cluster does not accept the policy (`Accepted=False`).
    Rejected,
    /// The policy's controller accepts the policy, but the policy has no effect (`Enforced=False`).
    NotEnforced,
    /// The agent cannot apply the policy.
    NotApplied,
    /// The policy is left unchanged, because the hub cannot plan it.
    Frozen,
    /// The policy is in force on only some of its targets.
    PartiallyEnforced,
    /// The agent has not applied the current revision yet, or the controller has not reported on that revision yet.
    Pending,
    /// The agent or the ManagedCluster is not available. Commands and web pages determine this state; the controller
    /// never writes it.
    Unreachable,
    /// No controller reports whether the policy is enforced.
    Unknown,
    /// The agent is removing the policy, which is not planned for the cluster again.
    Removing,
    /// Another policy on the cluster takes precedence (`Enforced=False`, reason `Overridden`).
    Overridden,
    /// The policy's controller accepts the policy and does not report a condition `Enforced`, which is optional in
    /// GEP-713.
    Accepted,
    /// The current revision is applied. Only for resources, which no controller enforces.
    Applied,
    /// The policy is in force.
    Enforced,
}

impl PolicyState {
    /// All states, the worst first.
    pub const ALL: [Self; 13] = [
        Self::Rejected,
        Self::NotEnforced,
        Self::NotApplied,
        Self::Frozen,
        Self::PartiallyEnforced,
        Self::Pending,
        Self::Unreachable,
        Self::Unknown,
        Self::Removing,
        Self::Overridden,
        Self::Accepted,
        Self::Applied,
        Self::Enforced,
    ];

    /// The state of the copy that `entry` describes.
    #[must_use]
    pub fn of(entry: &Synced) -> Self {
        let enforced = entry.condition(ENFORCED);
        if entry.is_being_removed() {
            return Self::Removing;
        }
        if entry.frozen.is_some() {
            return Self::Frozen;
        }
        if !entry.applied {
            return if entry.message.is_some() { Self::NotApplied } else { Self::Pending };
        }
        if entry.pending {
            return Self::Pending;
        }
        if entry.has_condition(ACCEPTED, "False") {
            return Self::Rejected;
        }
        match enforced.map(|condition| (&*condition.status, condition)) {
            _ if entry.partial => Self::PartiallyEnforced,
            Some(("True", _)) => Self::Enforced,
            Some(("False", condition)) if condition.is_overridden() => Self::Overridden,
            Some(("False", _)) => Self::NotEnforced,
            Some(_) => Self::Unknown,
            None if entry.conditions.iter().any(|condition| condition.status == "False") => Self::NotEnforced,
            None if entry.conditions.is_empty() => Self::Unknown,
            None if entry.conditions.iter().all(|condition| condition.status == "True") => Self::Accepted,
            None => Self::Unknown,
        }
    }

    /// The state of the copy that `entry` describes; `role` is the role of the copy's kind. A resource without a report
    /// is [`PolicyState::Applied`].
    #[must_use]
    pub fn of_kind(role: Role, entry: &Synced) -> Self {
        match Self::of(entry) {
            Self::Unknown if role == Role::Resource => Self::Applied,
            state => state,
        }
    }

    /// The name of the state in all outputs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rejected => "Rejected",
            Self::NotEnforced => "NotEnforced",
            Self::NotApplied => "NotApplied",
            Self::Frozen => "Frozen",
            Self::PartiallyEnforced => "PartiallyEnforced",
            Self::Pending => "Pending",
            Self::Unreachable => "Unreachable",
            Self::Unknown => "Unknown",
            Self::Removing => "Removing",
            Self::Overridden => "Overridden",
            Self::Accepted => "Accepted",
            Self::Applied => "Applied",
            Self::Enforced => "Enforced",
        }
    }

    /// The state to show if the cluster or its agent is not available. It is [`Self::Unreachable`], because the last
    /// report may be outdated. A frozen policy stays frozen, because the hub determines this state without a report.
    #[must_use]
    pub fn on_unavailable_cluster(self) -> Self {
        if self == Self::Frozen { self } else { Self::Unreachable }
    }

    /// The meaning of the state as a clause, in which `it` is the policy.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Rejected => "the policy controller on the cluster does not accept the policy",
            Self::NotEnforced => {
                "the policy controller on the cluster accepts the policy, but the policy has no effect"
            }
            Self::NotApplied => "the cluster's agent cannot apply it",
            Self::Frozen => "it is left unchanged on the cluster, because the hub cannot plan it",
            Self::PartiallyEnforced => {
                "it is in force on some of its targets, according to the message of its condition Enforced"
            }
            Self::Pending => "the cluster has not reported on the current revision yet",
            Self::Unreachable => "the cluster or its agent is not available",
            Self::Unknown => "no controller on the cluster reports whether it is enforced",
            Self::Removing => "the cluster's agent is removing it",
            Self::Overridden => "another policy on the cluster takes precedence",
            Self::Accepted => {
                "the policy controller on the cluster accepts the policy, but does not report whether the policy is enforced"
            }
            Self::Applied => "the cluster has the current revision",
            Self::Enforced => "it is in force",
        }
    }
}

/// Whether `condition` of a policy of `kind` is `Enforced=True` for only some of the targets. The result is derived
/// from the condition's message, see [`PARTIAL_WORDINGS`].
#[must_use]
pub fn is_partial(kind: &GroupResource, condition: &SyncedCondition) -> bool {
    let Some(message) = &condition.message else { return false };
    let mut wordings = PARTIAL_WORDINGS.iter().filter(|wording| wording.kind.is(kind));
    condition.condition_type == ENFORCED
        && condition.status == "True"
        && wordings.any(|wording| message.contains(wording.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(json: &str) -> Synced {
        let entry = format!(r#"{{"cluster":"a","name":"limits","namespace":"shop",{json}}}"#);
        serde_json::from_str(&entry).unwrap()
    }

    #[test]
    fn state_follows_from_the_report_of_the_cluster() {
        for (json, expected) in [
            (r#""deleting":true"#, PolicyState::Removing),
            (r#""deleting":true,"pending":true"#, PolicyState::Pending),
            (r#""pending":true"#, PolicyState::Pending),
            (r#""pending":true,"message":"no room""#, PolicyState::NotApplied),
            (r#""applied":true,"pending":true"#, PolicyState::Pending),
            (r#""applied":true,"frozen":"BadOverrides""#, PolicyState::Frozen),
            (r#""applied":true"#, PolicyState::Unknown),
            (r#""applied":true,"conditions":[{"type":"Enforced","status":"Unknown"}]"#, PolicyState::Unknown),
            (r#""applied":true,"conditions":[{"type":"Accepted","status":"Unknown"}]"#, PolicyState::Unknown),
            (r#""applied":true,"conditions":[{"type":"Accepted","status":"True"}]"#, PolicyState::Accepted),
            (
                r#""applied":true,"conditions":[{"type":"Programmed","status":"False"}]"#,
                PolicyState::NotEnforced,
            ),
            (
                r#""applied":true,"conditions":[{"type":"Accepted","status":"False","reason":"Conflicted"}]"#,
                PolicyState::Rejected,
            ),
            (
                r#""applied":true,"conditions":[{"type":"Enforced","status":"False","reason":"MissingResource"}]"#,
                PolicyState::NotEnforced,
            ),
            (
                r#""applied":true,"conditions":[{"type":"Enforced","status":"False","reason":"Overridden"}]"#,
                PolicyState::Overridden,
            ),
            (
                r#""applied":true,"partial":true,"conditions":[{"type":"Enforced","status":"True"}]"#,
                PolicyState::PartiallyEnforced,
            ),
            (r#""applied":true,"conditions":[{"type":"Enforced","status":"True"}]"#, PolicyState::Enforced),
        ] {
            assert_eq!(PolicyState::of(&entry(json)), expected, "{json}");
        }
    }

    #[test]
    fn partial_enforcement_is_derived_from_the_message_of_known_kinds() {
        let (full, part) = ("Policy has been successfully enforced", "Policy has been partially enforced");
        let dns = "DNSPolicy has been partially enforced. Not ready DNSRecords are: web-api ";
        for (group, resource, name, status, message, expected) in [
            ("kuadrant.io", "ratelimitpolicies", "Enforced", "True", part, true),
            ("kuadrant.io", "authpolicies", "Enforced", "True", part, true),
            ("kuadrant.io", "tokenratelimitpolicies", "Enforced", "True", part, true),
            ("kuadrant.io", "dnspolicies", "Enforced", "True", dns, true),
            ("kuadrant.io", "ratelimitpolicies", "Enforced", "True", full, false),
            ("kuadrant.io", "ratelimitpolicies", "Enforced", "False", part, false),
            ("kuadrant.io", "ratelimitpolicies", "Accepted", "True", part, false),
            ("kuadrant.io", "tlspolicies", "Enforced", "True", part, false),
            ("extensions.kuadrant.io", "planpolicies", "Enforced", "True", part, false),
            ("policies.example.com", "ratelimitpolicies", "Enforced", "True", part, false),
        ] {
            let condition = SyncedCondition {
                condition_type: name.to_owned(),
                status: status.to_owned(),
                reason: None,
                message: Some(message.to_owned()),
            };
            let kind = GroupResource::new(group, resource);
            assert_eq!(is_partial(&kind, &condition), expected, "{kind} {name}={status}: {message}");
        }
    }

    #[test]
    fn the_documentation_has_the_kinds_and_versions_of_partial_wordings() {
        let page = include_str!("../../../docs/status.md");
        for wording in PARTIAL_WORDINGS {
            let row = format!("| {} | {} | `{}` |", wording.kind.kind, wording.versions, wording.text);
            assert!(page.contains(&row), "docs/status.md has no row {row}");
        }
    }

    #[test]
    fn states_have_distinct_names_and_are_sorted() {
        let mut words = PolicyState::ALL.map(PolicyState::as_str);
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(PolicyState::ALL.is_sorted());
    }
}
