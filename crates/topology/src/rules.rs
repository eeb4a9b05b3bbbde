//! The rules of policies, and how policies of each kind are merged.

mod auth;
mod block;
mod configured;
mod fields;
mod inherited;
pub(super) mod strategy;

use serde_json::{Map, Value};

use super::fault::Fault;
use super::locator::KindRef;
use super::rows::RouteKind;
use block::{Block, Expected};
pub use configured::MergeConfig;
pub(super) use fields::has_overlapping_path;
use policy_sync_api::json::Hash;
use policy_sync_api::params::Level;
pub use strategy::Strategy;

/// The API group of Kuadrant's policies.
const KUADRANT: &str = "kuadrant.io";
/// The API group of Envoy Gateway's policies.
const ENVOY_GATEWAY: &str = "gateway.envoyproxy.io";

/// How policies of a kind are merged, and how their rules are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeBehavior<'t> {
    /// As Kuadrant's AuthPolicy: a rule for each named entry.
    Auth,
    /// As Kuadrant's RateLimitPolicy: a rule for each limit.
    Limits,
    /// As Kuadrant's TokenRateLimitPolicy, which does not support GRPCRoutes.
    TokenLimits,
    /// Policies apply as a whole, at listeners: the policy of a listener replaces the policy of its Gateway.
    Whole,
    /// As Envoy Gateway: only the most specific policy applies. If that policy has a `mergeType`, it is merged with its
    /// parent policy, the closest policy on a Gateway, a ListenerSet or a listener.
    Envoy,
    /// Policies are not merged: a policy applies to its target only.
    Direct,
    /// Field by field, the default of GEP-713. For kinds whose way of merging is unknown, this is an assumption.
    Fields,
    /// As configured for the kind in parameters.
    Configured(&'t MergeConfig),
}

impl MergeBehavior<'_> {
    /// How policies of `kind` are merged, without any configuration.
    #[must_use]
    pub fn of(kind: KindRef<'_>) -> Self {
        match (kind.group, kind.kind) {
            (KUADRANT, "AuthPolicy") => Self::Auth,
            (KUADRANT, "RateLimitPolicy") => Self::Limits,
            (KUADRANT, "TokenRateLimitPolicy") => Self::TokenLimits,
            (KUADRANT, "DNSPolicy" | "TLSPolicy") => Self::Whole,
            (ENVOY_GATEWAY, "BackendTrafficPolicy" | "EnvoyExtensionPolicy" | "SecurityPolicy") => {
                Self::Envoy
            }
            _ => Self::Fields,
        }
    }

    /// Whether policies with this behavior apply to routes of `kind`.
    #[must_use]
    pub fn is_for(self, kind: RouteKind) -> bool {
        match self {
            Self::Auth | Self::Limits => matches!(kind, RouteKind::Http | RouteKind::Grpc),
            Self::TokenLimits => kind == RouteKind::Http,
            Self::Whole | Self::Envoy | Self::Direct | Self::Fields | Self::Configured(_) => true,
        }
    }

    /// The most specific level that a policy with this behavior may target.
    #[must_use]
    pub fn level(self) -> Level {
        match self {
            Self::Whole => Level::Listener,
            Self::Configured(configured) => configured.level,
            Self::Auth | Self::Limits | Self::TokenLimits | Self::Envoy | Self::Direct | Self::Fields => {
                Level::Rule
            }
        }
    }

    /// Whether only one policy of the kind applies on a target.
    #[must_use]
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Whole | Self::Envoy | Self::Direct)
    }

    /// Whether a policy with this behavior applies to its target only.
    #[must_use]
    pub fn is_direct(self) -> bool {
        self == Self::Direct
    }

    /// Whether this way of merging is assumed, because the kind is unknown.
    #[must_use]
    pub fn is_assumed(self) -> bool {
        self == Self::Fields
    }

    /// Whether the keys of rules are paths in a spec. If so, a rule replaces rules at paths inside its own path, and
    /// rules whose paths contain its path.
    #[must_use]
    pub fn has_path_keys(self) -> bool {
        match self {
            Self::Envoy | Self::Fields => true,
            Self::Configured(configured) => configured.rules.is_empty(),
            Self::Auth | Self::Limits | Self::TokenLimits | Self::Whole | Self::Direct => false,
        }
    }
}

/// The rules of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyRules {
    /// How the policy is merged with more specific policies.
    pub strategy: Strategy,
    /// The policy's rules, in the order of their keys.
    pub rules: Vec<PolicyRule>,
    /// The faults in the policy's spec.
    pub faults: Vec<Fault>,
}

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRule {
    /// The identity of the rule, different from the keys of other rules of its policy. On a path, at most one rule with
    /// this key applies.
    pub key: String,
    /// The value in the spec.
    pub value: Value,
    /// The [hash](struct@Hash) of `value`.
    pub hash: Hash,
    /// Whether a policy that has only this rule counts as a policy with rules. False for additions such as conditions,
    /// which have no effect alone.
    pub is_rule: bool,
    /// Whether the rule is in `spec.override` (GEP-2649).
    pub is_override: bool,
}

impl PolicyRule {
    /// A rule with this value: `is_rule` is true, and `is_override` is false.
    ///
    /// `value` is a type of the crate `serde_json`. For a number, a boolean or a string, callers need not depend on
    /// `serde_json`: `&limit.into()` converts `limit`.
    #[must_use]
    pub fn new(key: impl Into<String>, value: &Value) -> Self {
        let hash = Hash::of_value(value);
        Self { key: key.into(), value: value.clone(), hash, is_rule: true, is_override: false }
    }

    /// An addition to rules, which has no effect without rules.
    fn addition(key: String, value: &Value) -> Self {
        Self { is_rule: false, ..Self::new(key, value) }
    }
}

impl PolicyRules {
    /// Reads the rules of a policy from its spec `text`. If a field has a wrong type, the policy has a fault
    /// and no rules.
    #[must_use]
    pub fn read(merge_behavior: MergeBehavior<'_>, text: &str) -> Self {
        let spec: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        match merge_behavior {
            MergeBehavior::Whole | MergeBehavior::Direct => {
                return Self { rules: whole_rules(&spec), ..Self::default() };
            }
            MergeBehavior::Envoy => return fields::read_envoy(&spec),
            _ if merge_behavior.has_path_keys() && inherited::has_shape(&spec) => {
                return inherited::read(&spec);
            }
            _ => {}
        }
        let (block, mut faults) = match Block::read(&spec) {
            Ok(found) => found,
            Err(wrong) => {
                return Self { strategy: Strategy::AtomicDefaults, faults: vec![wrong], ..Self::default() };
            }
        };
        let rules = match merge_behavior {
            MergeBehavior::Auth => auth::rules(&block),
            MergeBehavior::Limits | MergeBehavior::TokenLimits => limit_rules(&block),
            MergeBehavior::Configured(configured) if !configured.rules.is_empty() => configured.rules(&block),
            MergeBehavior::Fields
            | MergeBehavior::Configured(_)
            | MergeBehavior::Whole
            | MergeBehavior::Envoy
            | MergeBehavior::Direct => Ok(fields::rules(&block)),
        };
        let mut rules = rules.unwrap_or_else(|wrong| {
            faults.push(wrong);
            Vec::new()
        });
        rules.sort_by(|left, right| left.key.cmp(&right.key));
        Self { strategy: block.strategy, rules, faults }
    }
}

/// The only rule of a policy that applies as a whole or not at all: its spec without the target fields.
fn whole_rules(spec: &Map<String, Value>) -> Vec<PolicyRule> {
    let is_target = |key: &str| matches!(key, "targetRef" | "targetRefs" | "targetSelectors");
    let fields = spec.iter().filter(|(key, _)| !is_target(key));
    let whole: Map<String, Value> = fields.map(|(key, value)| (key.clone(), value.clone())).collect();
    vec![PolicyRule::new("spec#".to_owned(), &Value::Object(whole))]
}

/// The rules of Kuadrant's RateLimitPolicy and TokenRateLimitPolicy: one for each limit, and one for the
/// conditions.
fn limit_rules(block: &Block<'_>) -> Result<Vec<PolicyRule>, Fault> {
    let mut rules = block.entries("limits", Expected::Object)?;
    rules.extend(block.list("when", "conditions#")?);
    Ok(rules)
}
