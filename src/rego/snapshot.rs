//! What is asked: modules and data of one moment. Who asks reads it and nothing else.

use std::collections::BTreeMap;

use regorus::Value;

use super::asked::{PLACEMENT, Packages};
use super::embedded::Failure;
use super::engine::{Engine, EngineError};

/// Modules and data of one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    engine: Engine,
    denials: BTreeMap<&'static str, String>,
    packages: Packages,
    /// Why nothing can be asked yet.
    starting: Option<String>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Nothing can be asked yet.
    #[error("policies are not loaded yet: {0}")]
    Starting(String),
    /// A policy is there that cannot be asked.
    #[error("{0}")]
    Unasked(String),
    /// Who evaluates cannot be asked.
    #[error("{0}")]
    Unreached(String),
    /// It was asked, and failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<EngineError> for Unanswered {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Failed(failure) => Self::Failed(failure),
            EngineError::Unreached(why) => Self::Unreached(why),
        }
    }
}

impl Unanswered {
    /// Why, in a word for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Starting(_) => "starting",
            Self::Unasked(_) => "unasked",
            Self::Unreached(_) => "engine",
            Self::Failed(Failure { too_long: true, .. }) => "time",
            Self::Failed(_) => "evaluation",
        }
    }

    /// Whether an evaluation ran out of time.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Failed(Failure { too_long: true, .. }))
    }
}

impl Snapshot {
    /// One in which nothing can be asked for what `denials` name.
    #[must_use]
    pub fn new(engine: Engine, denials: BTreeMap<&'static str, String>) -> Self {
        Self { engine, denials, packages: Packages::default(), starting: None }
    }

    /// The same where other packages are asked than by default.
    #[must_use]
    pub fn asking(self, packages: Packages) -> Self {
        Self { packages, ..self }
    }

    /// Who evaluates.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What asks the package that is asked for `what`: `data.io.k8s.federation.admission`; where others fill the engine, its address.
    #[must_use]
    pub fn query(&self, what: &str) -> String {
        match self.engine.elsewhere() {
            Some((address, _)) => address,
            None => format!("data.{}", self.packages.of(what)),
        }
    }

    /// The same while nothing can be asked yet, for this reason.
    #[must_use]
    pub fn starting(self, why: String) -> Self {
        Self { starting: Some(why), ..self }
    }

    /// Whether nothing can be asked yet.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Whether there is a policy that is asked for `what`, be it one that cannot be, or nobody knows yet.
    #[must_use]
    pub fn is_asked(&self, what: &str) -> bool {
        let has = || match self.engine.elsewhere() {
            // It is an engine for placement alone.
            Some((_, are_there)) => are_there && what == PLACEMENT,
            None => self.engine.has(self.packages.of(what)),
        };
        self.starting.is_some() || self.denials.contains_key(what) || has()
    }

    /// The value of `query`, which is asked for `what`; `None` where it is undefined.
    ///
    /// # Errors
    ///
    /// Where it cannot be asked, or the evaluation fails.
    pub fn ask(&self, what: &str, query: &str, input: &Value) -> Result<Option<Value>, Unanswered> {
        if let Some(why) = &self.starting {
            return Err(Unanswered::Starting(why.clone()));
        }
        if let Some(why) = self.denials.get(what) {
            return Err(Unanswered::Unasked(why.clone()));
        }
        Ok(self.engine.ask(query, input)?)
    }
}
