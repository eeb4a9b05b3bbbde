//! The names of the built-in values that are requested from agents.

use std::fmt;

use policy_sync_api::annotations::CONDITIONS;
use policy_sync_api::gateway::LISTENER_CONDITIONS;

/// The subject of a built-in value. The names of built-in values start with `_`; all other names are `statusFields`
/// from parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueName<'n> {
    /// The revision of the copy, from its annotation.
    Revision,
    /// The generation of the copy.
    Generation,
    /// The observed generation in the status of the copy.
    ObservedGeneration,
    /// The creation time of the copy on the spoke.
    Created,
    /// A field of one of the copy's conditions.
    Condition(&'static str, ConditionField),
    /// The address with this index, counted from 0.
    Address(usize),
    /// A value of the listener with this name.
    Listener(&'n str, ListenerValue<'n>),
}

/// The subject of a value that belongs to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenerValue<'n> {
    /// The number of attached routes.
    AttachedRoutes,
    /// The observed generation of the listener's conditions.
    ObservedGeneration,
    /// A field of one of the listener's conditions.
    Condition(&'static str, ConditionField),
    /// The API group of a supported kind of routes.
    Kind(&'n str),
}

/// A field of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionField {
    Status,
    Reason,
    Message,
    ObservedGeneration,
}

const REVISION: &str = "revision";
const GENERATION: &str = "generation";
const OBSERVED_GENERATION: &str = "observedGeneration";
const CREATED: &str = "created";
const ADDRESS: &str = "address";
const LISTENER: &str = "listener";
const ATTACHED_ROUTES: &str = "attachedRoutes";
const KIND: &str = "kind";

impl<'n> ValueName<'n> {
    /// Parses the name of a value; `None` if the value is not built in.
    pub(super) fn parse(name: &'n str) -> Option<Self> {
        let name = name.strip_prefix('_')?;
        match (name, name.split_once('_')) {
            (REVISION, _) => Some(Self::Revision),
            (GENERATION, _) => Some(Self::Generation),
            (OBSERVED_GENERATION, _) => Some(Self::ObservedGeneration),
            (CREATED, _) => Some(Self::Created),
            (_, Some((ADDRESS, index))) => Some(Self::Address(index.parse().ok()?)),
            (_, Some((LISTENER, rest))) => {
                let (listener, what) = rest.split_once('_')?;
                Some(Self::Listener(listener, ListenerValue::parse(what)?))
            }
            (_, Some((condition, part))) => {
                Some(Self::Condition(known(&CONDITIONS, condition)?, ConditionField::parse(part)?))
            }
            (_, None) => None,
        }
    }
}

impl<'n> ListenerValue<'n> {
    fn parse(what: &'n str) -> Option<Self> {
        match (what, what.split_once('_')) {
            (ATTACHED_ROUTES, _) => Some(Self::AttachedRoutes),
            (OBSERVED_GENERATION, _) => Some(Self::ObservedGeneration),
            (_, Some((KIND, kind))) => Some(Self::Kind(kind)),
            (_, Some((condition, part))) => {
                Some(Self::Condition(known(&LISTENER_CONDITIONS, condition)?, ConditionField::parse(part)?))
            }
            (_, None) => None,
        }
    }
}

impl ConditionField {
    /// The name of the field in a condition.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Reason => "reason",
            Self::Message => "message",
            Self::ObservedGeneration => OBSERVED_GENERATION,
        }
    }

    fn parse(field: &str) -> Option<Self> {
        let all = [Self::Status, Self::Reason, Self::Message, Self::ObservedGeneration];
        all.into_iter().find(|part| part.field() == field)
    }
}

fn known(conditions: &[&'static str], condition: &str) -> Option<&'static str> {
    conditions.iter().copied().find(|known| *known == condition)
}

impl fmt::Display for ValueName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revision => write!(f, "_{REVISION}"),
            Self::Generation => write!(f, "_{GENERATION}"),
            Self::ObservedGeneration => write!(f, "_{OBSERVED_GENERATION}"),
            Self::Created => write!(f, "_{CREATED}"),
            Self::Condition(condition, part) => write!(f, "_{condition}_{}", part.field()),
            Self::Address(index) => write!(f, "_{ADDRESS}_{index}"),
            Self::Listener(listener, what) => {
                write!(f, "_{LISTENER}_{listener}_")?;
                match what {
                    ListenerValue::AttachedRoutes => f.write_str(ATTACHED_ROUTES),
                    ListenerValue::ObservedGeneration => f.write_str(OBSERVED_GENERATION),
                    ListenerValue::Condition(condition, part) => write!(f, "{condition}_{}", part.field()),
                    ListenerValue::Kind(kind) => write!(f, "{KIND}_{kind}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
