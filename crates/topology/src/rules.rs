//! How policies of each kind are merged, and what their rules are.

mod auth;
mod block;
mod configured;
mod envoy;
mod fields;
mod inherited;
mod limits;
pub(super) mod strategy;
mod whole;

use serde_json::{Map, Value};

use super::fault::Fault;
use super::locator::KindRef;
use super::rows::RouteKind;
use block::Block;
pub use configured::Configured;
pub(super) use fields::has_place_of;
use policy_sync_api::json::Hash;
use policy_sync_api::params::Level;
pub use strategy::Strategy;

/// The group of Kuadrant's policies.
const KUADRANT: &str = "kuadrant.io";
/// The group of Envoy Gateway's policies.
const ENVOY_GATEWAY: &str = "gateway.envoyproxy.io";

/// How policies of a kind are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner<'t> {
    /// As Kuadrant's AuthPolicy.
    Auth,
    /// As Kuadrant's RateLimitPolicy.
    Limits,
    /// As Kuadrant's TokenRateLimitPolicy, which knows no GRPCRoutes.
    TokenLimits,
    /// At listeners, whole: the listener's own in place of its Gateway's.
    Whole,
    /// As Envoy Gateway: only the most specific policy, merged with its parent if it has a `mergeType`.
    Envoy,
    /// Not at all: a policy is in force at its target alone.
    Direct,
    /// Field by field, as GEP-713 has it where it says nothing else. That the kind means it so is assumed.
    Fields,
    /// As parameters say it of the kind.
    Configured(&'t Configured),
}

impl Manner<'_> {
    /// How policies of `kind` are merged, as far as that is known of the kind.
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

    /// Whether such policies say anything of routes of `kind`.
    #[must_use]
    pub fn is_for(self, kind: RouteKind) -> bool {
        match self {
            Self::Auth | Self::Limits => matches!(kind, RouteKind::Http | RouteKind::Grpc),
            Self::TokenLimits => kind == RouteKind::Http,
            Self::Whole | Self::Envoy | Self::Direct | Self::Fields | Self::Configured(_) => true,
        }
    }

    /// The most specific that such a policy may lie on.
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

    /// Whether only one of them counts on one target.
    #[must_use]
    pub fn is_alone(self) -> bool {
        matches!(self, Self::Whole | Self::Envoy | Self::Direct)
    }

    /// Whether such a policy is in force at its target alone.
    #[must_use]
    pub fn is_direct(self) -> bool {
        self == Self::Direct
    }

    /// Whether this way of merging is assumed, because the kind is unknown.
    #[must_use]
    pub fn is_assumed(self) -> bool {
        self == Self::Fields
    }

    /// Whether a rule is a place in a spec: it displaces rules at places in it, and those of places that it is in.
    #[must_use]
    pub fn has_places(self) -> bool {
        match self {
            Self::Envoy | Self::Fields => true,
            Self::Configured(configured) => configured.rules.is_empty(),
            Self::Auth | Self::Limits | Self::TokenLimits | Self::Whole | Self::Direct => false,
        }
    }
}

/// What a policy says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyRules {
    /// How it is merged with others.
    pub strategy: Strategy,
    /// Its rules, in the order of their keys.
    pub rules: Vec<PolicyRule>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

/// A rule of a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRule {
    /// Two rules of one key exclude each other.
    pub key: String,
    /// What it says.
    pub value: Value,
    /// The hash of that.
    pub hash: Hash,
    /// Whether a policy that has it has rules: what only goes with rules is none.
    pub is_rule: bool,
    /// Whether it is of `spec.override` of GEP-2649.
    pub is_override: bool,
}

impl PolicyRule {
    /// A rule with this value. Its policy counts as one with rules.
    #[must_use]
    pub fn new(key: impl Into<String>, value: &Value) -> Self {
        let hash = Hash::of_value(value);
        Self { key: key.into(), value: value.clone(), hash, is_rule: true, is_override: false }
    }

    /// What only goes with rules.
    fn beside(key: String, value: &Value) -> Self {
        Self { is_rule: false, ..Self::new(key, value) }
    }
}

impl PolicyRules {
    /// What a policy says whose spec is `text`, in `manner`. Where a field has a wrong type, it has no rules.
    #[must_use]
    pub fn read(manner: Manner<'_>, text: &str) -> Self {
        let spec: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        match manner {
            Manner::Whole | Manner::Direct => return Self { rules: whole::rules(&spec), ..Self::default() },
            Manner::Envoy => return envoy::read(&spec),
            _ if manner.has_places() && inherited::has_shape(&spec) => return inherited::read(&spec),
            _ => {}
        }
        let (block, mut faults) = match Block::read(&spec) {
            Ok(found) => found,
            Err(wrong) => {
                return Self { strategy: Strategy::AtomicDefaults, faults: vec![wrong], ..Self::default() };
            }
        };
        let rules = match manner {
            Manner::Auth => auth::rules(&block),
            Manner::Limits | Manner::TokenLimits => limits::rules(&block),
            Manner::Configured(configured) if !configured.rules.is_empty() => configured.rules(&block),
            Manner::Fields | Manner::Configured(_) | Manner::Whole | Manner::Envoy | Manner::Direct => {
                Ok(fields::rules(&block))
            }
        };
        let mut rules = rules.unwrap_or_else(|wrong| {
            faults.push(wrong);
            Vec::new()
        });
        rules.sort_by(|left, right| left.key.cmp(&right.key));
        Self { strategy: block.strategy, rules, faults }
    }
}
