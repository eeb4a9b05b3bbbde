//! Modules and data of one point in time, for evaluations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regorus::Value;
use tokio::sync::mpsc;

use super::culprits::ExceededQuery;
use super::engine::{Engine, EngineError, Failure};
use super::module::ModuleId;
use super::omitted_documents::OmittedDocuments;
use super::queries::{PLACEMENT, QueriedPackages};
use super::secrets::SecretContents;
use policy_sync_api::names::GroupResource;
use policy_sync_api::rego_policy::EnforcementAction;

/// Modules and data of one point in time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    engine: Engine,
    rejections: BTreeMap<&'static str, String>,
    packages: QueriedPackages,
    review_inputs: Arc<ReviewInputs>,
    omitted_documents: Arc<OmittedDocuments>,
    /// The reason why Rego policies are not loaded yet; `None` if they are loaded.
    starting: Option<String>,
    /// Receives queries that exceeded a limit.
    exceeded: Option<mpsc::Sender<ExceededQuery>>,
}

/// Inputs of reviews besides modules and data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewInputs {
    /// The names by which policies refer to each kind.
    pub names: BTreeMap<GroupResource, BTreeSet<String>>,
    /// Modules whose enforcement is not `deny`.
    pub enforcement_overrides: BTreeMap<ModuleId, EnforcementAction>,
    /// Whether policies may read the contents of Secrets.
    pub secrets: SecretContents,
}

/// The policies of a snapshot, without data. Serves to compare two snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegoPolicySet {
    modules: Vec<Arc<str>>,
    enforcement_overrides: BTreeMap<ModuleId, EnforcementAction>,
    rejections: BTreeMap<&'static str, String>,
}

/// Why a query has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegoQueryError {
    /// Rego policies are not loaded yet.
    #[error("Rego policies are not loaded yet: {0}")]
    Starting(String),
    /// A module is rejected and has no last good text.
    #[error("{0}")]
    PolicyRejected(String),
    /// Documents of the object's own namespace are omitted. Objects of other namespaces can be evaluated.
    #[error("{0}")]
    DocumentsOmitted(String),
    /// The engine is unreachable.
    #[error("{0}")]
    Unreachable(String),
    /// The evaluation failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl From<EngineError> for RegoQueryError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Failed(failure) => Self::Failed(failure),
            EngineError::Unreachable(why) => Self::Unreachable(why),
        }
    }
}

impl RegoQueryError {
    /// The value of the metric's label `reason`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Starting(_) => "starting",
            Self::PolicyRejected(_) | Self::DocumentsOmitted(_) => "unasked",
            Self::Unreachable(_) => "engine",
            Self::Failed(Failure { exceeded_time: true, .. }) => "time",
            Self::Failed(Failure { exceeded_memory: true, .. }) => "memory",
            Self::Failed(_) => "evaluation",
        }
    }

    /// Whether an evaluation exceeded its time limit.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Failed(Failure { exceeded_time: true, .. }))
    }
}

impl Snapshot {
    /// Creates a snapshot. Queries for the purposes in `rejections` fail with these messages.
    #[must_use]
    pub fn new(engine: Engine, rejections: BTreeMap<&'static str, String>) -> Self {
        let (packages, review_inputs, omitted_documents) =
            (QueriedPackages::default(), Arc::default(), Arc::default());
        Self {
            engine,
            rejections,
            packages,
            review_inputs,
            omitted_documents,
            starting: None,
            exceeded: None,
        }
    }

    /// Sends queries that exceed a limit to `exceeded`.
    #[must_use]
    pub fn with_excess_sender(self, exceeded: mpsc::Sender<ExceededQuery>) -> Self {
        Self { exceeded: Some(exceeded), ..self }
    }

    /// Sets the queried packages.
    #[must_use]
    pub fn with_packages(self, packages: QueriedPackages) -> Self {
        Self { packages, ..self }
    }

    /// Sets the inputs of reviews besides modules and data.
    #[must_use]
    pub fn with_review_inputs(self, review_inputs: ReviewInputs) -> Self {
        Self { review_inputs: Arc::new(review_inputs), ..self }
    }

    /// The names by which policies refer to `kind`. If no policy refers to `kind`, returns its plural, with the group
    /// if another kind has the plural as a name.
    #[must_use]
    pub fn names_of(&self, kind: &GroupResource) -> BTreeSet<String> {
        if let Some(names) = self.review_inputs.names.get(kind) {
            return names.clone();
        }
        let is_taken = self.review_inputs.names.values().any(|names| names.contains(&*kind.resource));
        BTreeSet::from([if is_taken { kind.to_string() } else { kind.resource.to_string() }])
    }

    /// Whether evaluations get objects of `kind` without their contents.
    ///
    /// # Errors
    ///
    /// If a policy may read these contents. Without the contents, the policy might admit an object that it should deny.
    pub fn is_redacted(&self, kind: &GroupResource) -> Result<bool, RegoQueryError> {
        match &self.review_inputs.secrets {
            SecretContents::Withheld(reader) if *kind == GroupResource::secrets() => match reader {
                Some(fault) => {
                    Err(Failure { exceeded_time: false, exceeded_memory: false, fault: fault.clone() }.into())
                }
                None => Ok(true),
            },
            _ => Ok(false),
        }
    }

    /// The kinds to which policies refer.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupResource> {
        self.review_inputs.names.keys()
    }

    /// The policies of the snapshot, for a comparison with another snapshot.
    #[must_use]
    pub fn policies(&self) -> RegoPolicySet {
        let modules = self.engine.bundle().modules().map(|module| module.text().clone());
        RegoPolicySet {
            modules: modules.collect(),
            enforcement_overrides: self.review_inputs.enforcement_overrides.clone(),
            rejections: self.rejections.clone(),
        }
    }

    /// The enforcement of a module.
    #[must_use]
    pub fn enforcement(&self, module: &str) -> EnforcementAction {
        self.review_inputs.enforcement_overrides.get(&ModuleId::new(module)).copied().unwrap_or_default()
    }

    /// The engine that evaluates queries.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The query for `purpose`, for example `data.io.k8s.federation.admission`. For an external engine, its
    /// URL.
    #[must_use]
    pub fn query(&self, purpose: &str) -> String {
        match self.engine.external_endpoint() {
            Some((address, _)) => address,
            None => format!("data.{}", self.packages.of(purpose)),
        }
    }

    /// Sets the documents that are omitted.
    #[must_use]
    pub fn with_omitted(self, omitted_documents: OmittedDocuments) -> Self {
        Self { omitted_documents: Arc::new(omitted_documents), ..self }
    }

    /// Whether the documents of `kind` in `namespace` are omitted.
    #[must_use]
    pub fn are_omitted(&self, namespace: &str, kind: &GroupResource) -> bool {
        self.omitted_documents.namespaces.get(namespace).is_some_and(|kinds| kinds.contains(kind))
    }

    /// A warning for the review of an object of `namespace` for `purpose`, if the review lacks documents.
    ///
    /// # Errors
    ///
    /// [`RegoQueryError::DocumentsOmitted`] if the review lacks documents of `namespace` itself.
    pub fn omitted_documents(
        &self,
        purpose: &str,
        namespace: &str,
    ) -> Result<Option<String>, RegoQueryError> {
        self.omitted_documents.review(purpose, namespace).map_err(RegoQueryError::DocumentsOmitted)
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

    /// Whether there may be a policy for `purpose`: loaded, rejected, or not known yet.
    #[must_use]
    pub fn has_policies_for(&self, purpose: &str) -> bool {
        let has = || match self.engine.external_endpoint() {
            // External engines serve placement only.
            Some((_, has_carriers)) => has_carriers && purpose == PLACEMENT,
            None => self.engine.has(self.packages.of(purpose)),
        };
        self.starting.is_some() || self.rejections.contains_key(purpose) || has()
    }

    /// Why queries for `purpose` fail, if a module for it is rejected.
    #[must_use]
    pub fn rejection(&self, purpose: &str) -> Option<&str> {
        self.rejections.get(purpose).map(String::as_str)
    }

    /// Evaluates `query` for `purpose`. Returns `None` if it is undefined.
    ///
    /// # Errors
    ///
    /// If policies are not loaded, if a module for this purpose is rejected without a last good text, or if the
    /// evaluation fails.
    pub fn query_value(
        &self,
        purpose: &str,
        query: &str,
        input: &Value,
    ) -> Result<Option<Value>, RegoQueryError> {
        if let (None, Some(why)) = (&self.starting, self.rejection(purpose)) {
            return Err(RegoQueryError::PolicyRejected(why.to_owned()));
        }
        self.query_ignoring_rejected(query, input)
    }

    /// Like [`Self::query_value`], but rejected modules are ignored.
    ///
    /// # Errors
    ///
    /// If policies are not loaded, or if the evaluation fails.
    pub fn query_ignoring_rejected(
        &self,
        query: &str,
        input: &Value,
    ) -> Result<Option<Value>, RegoQueryError> {
        if let Some(why) = &self.starting {
            return Err(RegoQueryError::Starting(why.clone()));
        }
        let result = self.engine.query_value(query, input);
        if let (Err(EngineError::Failed(failure)), Some(exceeded)) = (&result, &self.exceeded)
            && (failure.exceeded_time || failure.exceeded_memory)
            && let Some(query) = self.engine.exceeded(failure.exceeded_time, query, input)
        {
            // If the channel is full, a search is due already.
            let _ = exceeded.try_send(query);
        }
        Ok(result?)
    }
}
