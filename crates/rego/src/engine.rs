//! Who evaluates: the engine that is part of this process, OPA, or an engine that others fill.

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

/// Who evaluates.
#[derive(Clone, Debug, Default)]
pub enum Evaluator {
    /// This process.
    #[default]
    Embedded,
    /// OPA.
    Opa(Opa),
    /// An engine that others fill: no text is read here.
    External(External),
}

/// Modules and data of one moment, ready to be asked by many at once.
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
    /// And whether there are policies.
    External(External, bool),
}

impl Evaluator {
    /// Creates an engine without data. The embedded engine prepares its modules anew for each query, until it has data.
    ///
    /// # Errors
    ///
    /// Where a module does not fit the others.
    pub fn engine(&self, bundle: &Bundle) -> Result<Engine, Fault> {
        let by = match self {
            Self::Embedded => By::Embedded(Box::new(Embedded::without_data(bundle)?)),
            Self::Opa(opa) => By::Opa(InOpa::new(opa.clone(), bundle)),
            Self::External(external) => By::External(external.clone(), external.options().always),
        };
        Ok(Engine { packages: Arc::new(bundle.packages()), bundle: Arc::new(bundle.clone()), by })
    }

    /// For whom texts are checked.
    #[must_use]
    pub fn evaluates(&self) -> EvaluatedBy {
        match self {
            Self::Opa(_) => EvaluatedBy::Opa,
            Self::Embedded | Self::External(_) => EvaluatedBy::Embedded,
        }
    }

    /// OPA, where it is that.
    #[must_use]
    pub fn opa(&self) -> Option<&Opa> {
        match self {
            Self::Opa(opa) => Some(opa),
            Self::Embedded | Self::External(_) => None,
        }
    }

    /// The engine that others fill, where it is one.
    #[must_use]
    pub fn external(&self) -> Option<&External> {
        match self {
            Self::External(external) => Some(external),
            Self::Embedded | Self::Opa(_) => None,
        }
    }
}

impl Engine {
    /// Whether a module is of `package`.
    #[must_use]
    pub fn has(&self, package: &str) -> bool {
        self.packages.contains(package)
    }

    /// The same modules with other data.
    ///
    /// # Errors
    ///
    /// Where `data` is no object.
    pub fn with_data(&self, data: Value) -> Result<Self, Fault> {
        let by = match &self.by {
            By::Embedded(embedded) => By::Embedded(Box::new(embedded.with_data(data)?)),
            By::Opa(in_opa) => By::Opa(in_opa.with_data(data)),
            external @ By::External(..) => external.clone(),
        };
        Ok(Self { by, ..self.clone() })
    }

    /// The same where there are carriers of policies, or none: all that counts where others fill the engine.
    #[must_use]
    pub fn with_carriers(mut self, are_there: bool) -> Self {
        if let By::External(external, policies) = &mut self.by {
            *policies = are_there || external.options().always;
        }
        self
    }

    /// Where it is asked, and whether there are policies, where others fill it.
    #[must_use]
    pub fn elsewhere(&self) -> Option<(String, bool)> {
        match &self.by {
            By::External(external, policies) => Some((external.address(), *policies)),
            By::Embedded(_) | By::Opa(_) => None,
        }
    }

    /// The value of `query`, `None` where it is undefined.
    ///
    /// # Errors
    ///
    /// Where it cannot be asked, or the evaluation fails.
    pub fn ask(&self, query: &str, input: &Value) -> Result<Option<Value>, EngineError> {
        match &self.by {
            By::Embedded(embedded) => Ok(embedded.ask(query, input)?),
            By::Opa(in_opa) => in_opa.ask(query, input, &self.bundle),
            By::External(external, _) => external.ask(input),
        }
    }

    /// A query of this process that exceeded its time, or else its memory.
    pub(super) fn exceeded(&self, too_long: bool, query: &str, input: &Value) -> Option<Exceeded> {
        match &self.by {
            By::Embedded(embedded) => Some(Exceeded::new(too_long, (**embedded).clone(), query, input)),
            By::Opa(_) | By::External(..) => None,
        }
    }

    /// What OPA is to have, where it evaluates.
    #[must_use]
    pub fn in_opa(&self) -> Option<&InOpa> {
        match &self.by {
            By::Opa(in_opa) => Some(in_opa),
            By::Embedded(_) | By::External(..) => None,
        }
    }

    /// What it is made of.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}
