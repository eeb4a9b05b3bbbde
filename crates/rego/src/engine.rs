//! The evaluators of Rego: the embedded engine, OPA, or an external engine with its own policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use regorus::Value;

use super::bundle::Bundle;
use super::culprits::ExceededQuery;
use super::embedded::Embedded;
use super::external::External;
use super::fault::Fault;
use super::opa::{Opa, OpaEngine};

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

/// The evaluator for which a bundle is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// The embedded engine. The check includes a trial evaluation.
    #[default]
    Embedded,
    /// OPA, which has builtins that the embedded engine lacks.
    Opa,
}

/// Modules and data of one point in time. Several threads can evaluate at once.
#[derive(Clone, Debug)]
pub struct Engine {
    bundle: Arc<Bundle>,
    packages: Arc<BTreeSet<String>>,
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Embedded(Box<Embedded>),
    Opa(OpaEngine),
    /// The engine, and whether it is queried: if the hub has Rego policies, or if `always` is set.
    External(External, bool),
}

/// A failed evaluation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Failure {
    /// Whether the evaluation exceeded the time limit.
    pub exceeded_time: bool,
    /// Whether the evaluation exceeded the memory limit.
    pub exceeded_memory: bool,
    /// The error and its place.
    pub fault: Fault,
}

/// An error of an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The evaluation failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The engine is unreachable, or lacks the current modules or data.
    #[error("{0}")]
    Unreachable(String),
}

impl Evaluator {
    /// Creates an engine without data. Until it has data, the embedded engine compiles its modules for each query.
    ///
    /// # Errors
    ///
    /// If the embedded engine cannot load the modules together.
    pub fn engine(&self, bundle: &Bundle) -> Result<Engine, Fault> {
        let backend = match self {
            Self::Embedded => Backend::Embedded(Box::new(Embedded::without_data(bundle)?)),
            Self::Opa(opa) => Backend::Opa(OpaEngine::new(opa.clone(), bundle)),
            Self::External(external) => Backend::External(external.clone(), external.options().always),
        };
        Ok(Engine { packages: Arc::new(bundle.packages()), bundle: Arc::new(bundle.clone()), backend })
    }

    /// The evaluator for which texts are checked.
    #[must_use]
    pub fn engine_kind(&self) -> EngineKind {
        match self {
            Self::Opa(_) => EngineKind::Opa,
            Self::Embedded | Self::External(_) => EngineKind::Embedded,
        }
    }

    /// The OPA; `None` if another evaluator is configured.
    #[must_use]
    pub fn opa(&self) -> Option<&Opa> {
        match self {
            Self::Opa(opa) => Some(opa),
            Self::Embedded | Self::External(_) => None,
        }
    }

    /// The external engine; `None` if another evaluator is configured.
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

    /// An engine with the same modules and this `data`.
    ///
    /// # Errors
    ///
    /// If `data` is not an object.
    pub fn with_data(&self, data: Value) -> Result<Self, Fault> {
        let backend = match &self.backend {
            Backend::Embedded(embedded) => Backend::Embedded(Box::new(embedded.with_data(data)?)),
            Backend::Opa(opa_engine) => Backend::Opa(opa_engine.with_data(data)),
            external @ Backend::External(..) => external.clone(),
        };
        Ok(Self { backend, ..self.clone() })
    }

    /// Sets whether a ConfigMap or RegoPolicy of the hub contains modules. This matters only for an external engine:
    /// without modules on the hub, it is not queried, unless [`always`](super::external::Options::always) is set.
    #[must_use]
    pub fn with_carriers(mut self, has_carriers: bool) -> Self {
        if let Backend::External(external, policies) = &mut self.backend {
            *policies = has_carriers || external.options().always;
        }
        self
    }

    /// The address of the external engine, and whether it is queried: if the hub has Rego policies, or if
    /// [`always`](super::external::Options::always) is set. `None` for other evaluators.
    #[must_use]
    pub fn external_endpoint(&self) -> Option<(String, bool)> {
        match &self.backend {
            Backend::External(external, policies) => Some((external.address(), *policies)),
            Backend::Embedded(_) | Backend::Opa(_) => None,
        }
    }

    /// Evaluates `query`. Returns `None` if it is undefined.
    ///
    /// # Errors
    ///
    /// If the engine is unreachable or the evaluation fails.
    pub fn query_value(&self, query: &str, input: &Value) -> Result<Option<Value>, EngineError> {
        match &self.backend {
            Backend::Embedded(embedded) => Ok(embedded.query_value(query, input)?),
            Backend::Opa(opa_engine) => opa_engine.query_value(query, input, &self.bundle),
            Backend::External(external, _) => external.query_value(input),
        }
    }

    /// A query of the embedded engine that exceeded its time limit or, if `exceeded_time` is false, its memory limit.
    pub(super) fn exceeded(&self, exceeded_time: bool, query: &str, input: &Value) -> Option<ExceededQuery> {
        match &self.backend {
            Backend::Embedded(embedded) => {
                Some(ExceededQuery::new(exceeded_time, (**embedded).clone(), query, input))
            }
            Backend::Opa(_) | Backend::External(..) => None,
        }
    }

    /// The OPA, with all modules and data of this engine. OPA must have loaded them before its results count. `None` if
    /// another evaluator is configured.
    #[must_use]
    pub fn opa_engine(&self) -> Option<&OpaEngine> {
        match &self.backend {
            Backend::Opa(opa_engine) => Some(opa_engine),
            Backend::Embedded(_) | Backend::External(..) => None,
        }
    }

    /// The modules of the engine.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }
}
