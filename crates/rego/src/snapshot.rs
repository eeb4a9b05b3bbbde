//! Modules and data of one point in time, for evaluations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value;
use tokio::sync::mpsc;

use super::asked::{PLACEMENT, Packages};
use super::culprits::Exceeded;
use super::engine::Engine;
use super::engine_error::{EngineError, Failure};
use super::incomplete::Incomplete;
use super::module::ModuleId;
use super::secrets::Contents;
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::Enforcement;

/// Modules and data of one point in time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    engine: Engine,
    denials: BTreeMap<&'static str, String>,
    packages: Packages,
    gates: Arc<Gates>,
    incomplete: Arc<Incomplete>,
    /// The reason why Rego policies are not loaded yet, if so.
    starting: Option<String>,
    /// Receives queries that exceeded a limit.
    exceeded: Option<mpsc::Sender<Exceeded>>,
}

/// Further inputs of reviews.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// The names of kinds in policies.
    pub names: BTreeMap<GroupResource, BTreeSet<String>>,
    /// Modules whose enforcement is not `deny`.
    pub lenient: BTreeMap<ModuleId, Enforcement>,
    /// Whether policies may read the contents of Secrets.
    pub secrets: Contents,
}

/// Identifies the policies of a snapshot, without data. For a comparison of two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    modules: Vec<Arc<str>>,
    lenient: BTreeMap<ModuleId, Enforcement>,
    denials: BTreeMap<&'static str, String>,
}

/// Why a query has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// Rego policies are not loaded yet.
    #[error("Rego policies are not loaded yet: {0}")]
    Starting(String),
    /// A module is rejected and has no last good text.
    #[error("{0}")]
    Unasked(String),
    /// The engine is unreachable.
    #[error("{0}")]
    Unreached(String),
    /// The evaluation failed.
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
    /// The value of the metric's label `reason`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Starting(_) => "starting",
            Self::Unasked(_) => "unasked",
            Self::Unreached(_) => "engine",
            Self::Failed(Failure { too_long: true, .. }) => "time",
            Self::Failed(Failure { too_large: true, .. }) => "memory",
            Self::Failed(_) => "evaluation",
        }
    }

    /// Whether an evaluation exceeded its time limit.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        matches!(self, Self::Failed(Failure { too_long: true, .. }))
    }
}

impl Snapshot {
    /// Creates a snapshot. Queries for the purposes in `denials` fail with these messages.
    #[must_use]
    pub fn new(engine: Engine, denials: BTreeMap<&'static str, String>) -> Self {
        let (packages, gates, incomplete) = (Packages::default(), Arc::default(), Arc::default());
        Self { engine, denials, packages, gates, incomplete, starting: None, exceeded: None }
    }

    /// Sends queries that exceed a limit to `exceeded`.
    #[must_use]
    pub fn reporting_excess(self, exceeded: mpsc::Sender<Exceeded>) -> Self {
        Self { exceeded: Some(exceeded), ..self }
    }

    /// Sets the queried packages.
    #[must_use]
    pub fn asking(self, packages: Packages) -> Self {
        Self { packages, ..self }
    }

    /// Sets the further inputs of reviews.
    #[must_use]
    pub fn with_gates(self, gates: Gates) -> Self {
        Self { gates: Arc::new(gates), ..self }
    }

    /// The names of `kind` in policies. If policies do not name it, its plural.
    #[must_use]
    pub fn names_of(&self, kind: &GroupResource) -> BTreeSet<String> {
        if let Some(names) = self.gates.names.get(kind) {
            return names.clone();
        }
        let is_taken = self.gates.names.values().any(|names| names.contains(&*kind.resource));
        BTreeSet::from([if is_taken { kind.to_string() } else { kind.resource.to_string() }])
    }

    /// Whether evaluations get objects of `kind` without their contents.
    ///
    /// # Errors
    ///
    /// If a policy may read these contents: without them it might admit an object that it should deny.
    pub fn withholds(&self, kind: &GroupResource) -> Result<bool, Unanswered> {
        match &self.gates.secrets {
            Contents::Withheld(reader) if *kind == GroupResource::secrets() => match reader {
                Some(fault) => {
                    Err(Failure { too_long: false, too_large: false, fault: fault.clone() }.into())
                }
                None => Ok(true),
            },
            _ => Ok(false),
        }
    }

    /// The kinds that policies name.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupResource> {
        self.gates.names.keys()
    }

    /// Identifies its policies, for a comparison with another snapshot.
    #[must_use]
    pub fn policies(&self) -> Policies {
        let modules = self.engine.bundle().modules().map(|module| module.text().clone());
        Policies {
            modules: modules.collect(),
            lenient: self.gates.lenient.clone(),
            denials: self.denials.clone(),
        }
    }

    /// The enforcement of a module.
    #[must_use]
    pub fn enforcement(&self, module: &str) -> Enforcement {
        self.gates.lenient.get(&ModuleId::new(module)).copied().unwrap_or_default()
    }

    /// The engine that evaluates queries.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The query for the purpose `what`, for example `data.io.k8s.federation.admission`. For an external engine, its
    /// URL.
    #[must_use]
    pub fn query(&self, what: &str) -> String {
        match self.engine.elsewhere() {
            Some((address, _)) => address,
            None => format!("data.{}", self.packages.of(what)),
        }
    }

    /// Sets the documents that are omitted.
    #[must_use]
    pub fn without(self, incomplete: Incomplete) -> Self {
        Self { incomplete: Arc::new(incomplete), ..self }
    }

    /// Whether the documents of `kind` in `namespace` are omitted.
    #[must_use]
    pub fn are_left_out(&self, namespace: &str, kind: &GroupResource) -> bool {
        self.incomplete.namespaces.get(namespace).is_some_and(|kinds| kinds.contains(kind))
    }

    /// A warning for the review of an object of `namespace` for the purpose `what`, if the review lacks documents.
    ///
    /// # Errors
    ///
    /// [`Unanswered::Unasked`] if the review lacks documents of `namespace` itself.
    pub fn incomplete(&self, what: &str, namespace: &str) -> Result<Option<String>, Unanswered> {
        self.incomplete.review(what, namespace).map_err(Unanswered::Unasked)
    }

    /// Marks the snapshot as not ready, with the reason. All queries fail.
    #[must_use]
    pub fn starting(self, why: String) -> Self {
        Self { starting: Some(why), ..self }
    }

    /// Whether Rego policies are not loaded yet.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    /// Whether there may be a policy for the purpose `what`: loaded, rejected, or not known yet.
    #[must_use]
    pub fn is_asked(&self, what: &str) -> bool {
        let has = || match self.engine.elsewhere() {
            // External engines serve placement only.
            Some((_, are_there)) => are_there && what == PLACEMENT,
            None => self.engine.has(self.packages.of(what)),
        };
        self.starting.is_some() || self.denials.contains_key(what) || has()
    }

    /// Why queries for the purpose `what` fail, if a module for it is rejected.
    #[must_use]
    pub fn unasked(&self, what: &str) -> Option<&str> {
        self.denials.get(what).map(String::as_str)
    }

    /// Evaluates `query` for the purpose `what`. Returns `None` if it is undefined.
    ///
    /// # Errors
    ///
    /// If policies are not loaded, if a module for this purpose is rejected without a last good text, or if the
    /// evaluation fails.
    pub fn ask(&self, what: &str, query: &str, input: &Value) -> Result<Option<Value>, Unanswered> {
        if let (None, Some(why)) = (&self.starting, self.unasked(what)) {
            return Err(Unanswered::Unasked(why.to_owned()));
        }
        self.ask_the_others(query, input)
    }

    /// Like [`Self::ask`], but rejected modules are ignored.
    ///
    /// # Errors
    ///
    /// If policies are not loaded, or if the evaluation fails.
    pub fn ask_the_others(&self, query: &str, input: &Value) -> Result<Option<Value>, Unanswered> {
        if let Some(why) = &self.starting {
            return Err(Unanswered::Starting(why.clone()));
        }
        let answer = self.engine.ask(query, input);
        if let (Err(EngineError::Failed(failure)), Some(exceeded)) = (&answer, &self.exceeded)
            && (failure.too_long || failure.too_large)
            && let Some(query) = self.engine.exceeded(failure.too_long, query, input)
        {
            // If the channel is full, a search is due already.
            let _ = exceeded.try_send(query);
        }
        Ok(answer?)
    }
}
