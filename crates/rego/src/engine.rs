//! The evaluators of Rego: the embedded engine, OPA, or an external engine with its own policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use regorus::Value;

use super::bundle::Bundle;
use super::culprits::Exceeded;
use super::embedded::Embedded;
use super::engine_error::EngineError;
use super::evaluated_by::EvaluatedBy;
use super::external::External;
use super::fault::Fault;
use super::opa::{InOpa, Opa};

/// The configured evaluator.
#[derive(Clone, Debug, Default)]
pub enum Evaluator {
    /// The embedded engine.
    #[default]
    Embedded,
    /// An OPA to which this process pushes modules and data.
    Opa(Opa),
    /// An external engine, which gets its policies elsewhere. No modules are loaded here.
    External(External),
}

/// Modules and data of one point in time. Several threads can evaluate at once.
#[derive(Clone, Debug)]
pub struct Engine {
    bundle: Arc<Bundle>,
    packages: Arc<BTreeSet<String>>,
    by: By,
}

#[derive(Clone, Debug)]
enum By {
    Embedded(Box<Embedded>),
    Opa(InOpa),
    /// The engine, and whether there are policies.
    External(External, bool),
}

impl Evaluator {
    /// Creates an engine without data. Until it has data, the embedded engine prepares its modules for each query.
    ///
    /// # Errors
    ///
    /// If a module conflicts with another.
    pub fn engine(&self, bundle: &Bundle) -> Result<Engine, Fault> {
        let by = match self {
            Self::Embedded => By::Embedded(Box::new(Embedded::without_data(bundle)?)),
            Self::Opa(opa) => By::Opa(InOpa::new(opa.clone(), bundle)),
            Self::External(external) => By::External(external.clone(), external.options().always),
        };
        Ok(Engine { packages: Arc::new(bundle.packages()), bundle: Arc::new(bundle.clone()), by })
    }

    /// The evaluator for which texts are checked.
    #[must_use]
    pub fn evaluates(&self) -> EvaluatedBy {
        match self {
            Self::Opa(_) => EvaluatedBy::Opa,
            Self::Embedded | Self::External(_) => EvaluatedBy::Embedded,
        }
    }

    /// The OPA, if it is the evaluator.
    #[must_use]
    pub fn opa(&self) -> Option<&Opa> {
        match self {
            Self::Opa(opa) => Some(opa),
            Self::Embedded | Self::External(_) => None,
        }
    }

    /// The external engine, if it is the evaluator.
    #[must_use]
    pub fn external(&self) -> Option<&External> {
        match self {
            Self::External(external) => Some(external),
            Self::Embedded | Self::Opa(_) => None,
        }
    }
}

impl Engine {
    /// Whether a module belongs to `package`.
    #[must_use]
    pub fn has(&self, package: &str) -> bool {
        self.packages.contains(package)
    }

    /// The same modules with other data.
    ///
    /// # Errors
    ///
    /// If `data` is not an object.
    pub fn with_data(&self, data: Value) -> Result<Self, Fault> {
        let by = match &self.by {
            By::Embedded(embedded) => By::Embedded(Box::new(embedded.with_data(data)?)),
            By::Opa(in_opa) => By::Opa(in_opa.with_data(data)),
            external @ By::External(..) => external.clone(),
        };
        Ok(Self { by, ..self.clone() })
    }

    /// Sets whether the hub has carriers of policies. Only an external engine needs this: without carriers it is not
    /// queried, unless [`always`](super::external::Options::always) is set.
    #[must_use]
    pub fn with_carriers(mut self, are_there: bool) -> Self {
        if let By::External(external, policies) = &mut self.by {
            *policies = are_there || external.options().always;
        }
        self
    }

    /// For an external engine, its address, and whether there are policies.
    #[must_use]
    pub fn elsewhere(&self) -> Option<(String, bool)> {
        match &self.by {
            By::External(external, policies) => Some((external.address(), *policies)),
            By::Embedded(_) | By::Opa(_) => None,
        }
    }

    /// Evaluates `query`. Returns `None` if it is undefined.
    ///
    /// # Errors
    ///
    /// If the engine is unreachable or the evaluation fails.
    pub fn ask(&self, query: &str, input: &Value) -> Result<Option<Value>, EngineError> {
        match &self.by {
            By::Embedded(embedded) => Ok(embedded.ask(query, input)?),
            By::Opa(in_opa) => in_opa.ask(query, input, &self.bundle),
            By::External(external, _) => external.ask(input),
        }
    }

    /// A query of the embedded engine that exceeded its time limit, or otherwise its memory limit.
    pub(super) fn exceeded(&self, too_long: bool, query: &str, input: &Value) -> Option<Exceeded> {
        match &self.by {
            By::Embedded(embedded) => Some(Exceeded::new(too_long, (**embedded).clone(), query, input)),
            By::Opa(_) | By::External(..) => None,
        }
    }

    /// The contents for OPA, if it is the evaluator.
    #[must_use]
    pub fn in_opa(&self) -> Option<&InOpa> {
        match &self.by {
            By::Opa(in_opa) => Some(in_opa),
            By::Embedded(_) | By::External(..) => None,
        }
    }

    /// The modules.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}
