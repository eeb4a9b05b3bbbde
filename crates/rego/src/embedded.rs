//! The embedded engine: evaluates Rego in this process.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, QueryResults, Value};

use super::bundle::Bundle;
use super::engine::Failure;
use super::evaluation_error::EvaluationError;
use super::extensions;
use super::extensions::clock::FrozenClock;
use super::fault::{Fault, split_place};
use super::loaded_module::LoadedModule;
use super::memory::{self, OverLimit};
use super::module::ModuleId;

/// The time limit of an evaluation.
pub const LIMIT: Duration = Duration::from_secs(1);
/// The number of evaluation steps between two checks of the time.
const STEPS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Modules and data. Several threads can evaluate at once.
#[derive(Clone, Debug)]
pub struct Embedded {
    engine: Engine,
    bundle: Arc<Bundle>,
    /// An empty object at the path of each package.
    packages: Value,
}

/// The result of an evaluation.
#[derive(Debug)]
pub struct EvaluationResult {
    /// One entry for each solution of the query; none if the query is undefined.
    pub results: QueryResults,
    /// The messages of `print` calls.
    pub prints: Vec<String>,
}

impl EvaluationResult {
    /// The value of the query's first expression; `None` if it is undefined.
    #[must_use]
    pub fn into_value(self) -> Option<Value> {
        let expressions = self.results.result.into_iter().next()?.expressions;
        let value = expressions.into_iter().next()?.value;
        (value != Value::Undefined).then_some(value)
    }
}

impl Embedded {
    /// Creates an engine for `bundle` with this `data`.
    ///
    /// # Errors
    ///
    /// If a module conflicts with another, if `data` is not an object, or if `data` has a value at the path of a rule.
    pub fn new(bundle: &Bundle, data: Value) -> Result<Self, Fault> {
        let embedded = Self::without_data(bundle)?;
        if let Some(fault) = bundle.fault_of_data(&data) {
            return Err(fault);
        }
        embedded.prepared(data).map_err(|error| embedded.explained(&error))
    }

    /// Creates an engine for `bundle` without data. [`Self::with_data`] derives engines from it, which evaluate queries.
    /// The modules are not compiled yet, because the compiled form takes as much memory as the modules themselves.
    ///
    /// # Errors
    ///
    /// If the engine cannot load the modules together.
    pub fn without_data(bundle: &Bundle) -> Result<Self, Fault> {
        let mut engine = bundle.engine()?;
        extensions::add_to(&mut engine).map_err(|error| bundle.original(bundle.fault_of_engine(&error)))?;
        // Every error ends the evaluation. This includes an error in one definition of a function, even if another
        // definition of that function has a value. Where OPA treats a failed builtin as undefined, the builtins of `extensions`, which replace those of
        // the engine, return undefined instead of an error.
        engine.set_strict_builtin_errors(true);
        engine.set_gather_prints(true);
        engine.set_execution_timer_config(ExecutionTimerConfig { limit: LIMIT, check_interval: STEPS });
        Ok(Self { engine, packages: packages(bundle), bundle: Arc::new(bundle.clone()) })
    }

    /// An engine with the same modules and this `data`.
    ///
    /// # Errors
    ///
    /// If `data` is not an object.
    pub fn with_data(&self, data: Value) -> Result<Self, Fault> {
        self.prepared(data).map_err(|error| self.fault(&error))
    }

    fn prepared(&self, mut data: Value) -> anyhow::Result<Self> {
        add_missing(&self.packages, &mut data);
        let mut engine = self.engine.clone();
        engine.clear_data();
        engine.add_data(data)?;
        // This query makes the engine compile its modules, once for all clones.
        engine.eval_query("true".to_owned(), false)?;
        Ok(Self { engine, ..self.clone() })
    }

    /// An engine with the same data and only these modules.
    ///
    /// # Errors
    ///
    /// Returns a fault if these modules conflict with each other.
    pub(super) fn subset(&self, modules: &HashSet<ModuleId>) -> Result<Self, Fault> {
        Self::new(&self.bundle.subset(modules), self.engine.get_data())
    }

    /// The modules of the engine.
    pub(super) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Adds further data from a file.
    ///
    /// # Errors
    ///
    /// If `more` is not an object, has a value at the path of a rule, or conflicts with other data.
    pub fn add(&mut self, more: Value) -> Result<(), Fault> {
        if let Some(fault) = self.bundle.fault_of_data(&more) {
            return Err(fault);
        }
        self.engine.add_data(more).map_err(|error| self.explained(&error))
    }

    /// Evaluates `query`, for example `data.admission.deny`, with the `input` and data from files.
    ///
    /// # Errors
    ///
    /// If the evaluation fails, takes more than a second, or exceeds its memory limit. The error describes
    /// the failure, and names the place if it is known.
    pub fn evaluate(&self, query: &str, input: &Value) -> Result<EvaluationResult, Failure> {
        self.evaluated(query, input, Self::explained)
    }

    /// Evaluates `query` with the `input` and data of a hub. Returns `None` if it is undefined.
    ///
    /// # Errors
    ///
    /// If the evaluation fails, takes more than a second, or exceeds its memory limit. The error has a kind and a
    /// place, and quotes no value.
    pub fn query_value(&self, query: &str, input: &Value) -> Result<Option<Value>, Failure> {
        Ok(self.evaluated(query, input, Self::fault)?.into_value())
    }

    /// Evaluates `query` within the limits of time and memory. `describe` converts an error of the engine to a fault.
    fn evaluated(
        &self,
        query: &str,
        input: &Value,
        describe: fn(&Self, &anyhow::Error) -> Fault,
    ) -> Result<EvaluationResult, Failure> {
        let evaluated = memory::limited(|| {
            // The engine panics when it formats an integer that JSON cannot represent.
            let evaluated = catch_unwind(AssertUnwindSafe(|| self.run(query, input)));
            evaluated.unwrap_or_else(|_| Err(anyhow!("the engine panicked")))
        });
        match evaluated {
            Ok(evaluated) => evaluated.map_err(|error| self.failure(query, &error, describe(self, &error))),
            Err((over, evaluated)) => Err(self.over_limit(query, over, evaluated.err().as_ref())),
        }
    }

    fn run(&self, query: &str, input: &Value) -> anyhow::Result<EvaluationResult> {
        let mut engine = self.engine.clone();
        engine.set_input(input.clone());
        let _stopped = FrozenClock::now();
        let results = engine.eval_query(query.to_owned(), false)?;
        for result in &results.result {
            let expressions = result.expressions.iter().map(|expression| &expression.value);
            expressions.chain([&result.bindings]).try_for_each(memory::check_result)?;
        }
        let prints = engine.take_prints().unwrap_or_default();
        Ok(EvaluationResult {
            results,
            prints: prints.iter().map(|line| self.bundle.printed(line)).collect(),
        })
    }

    /// A fault at the place of the error in the module's text. Its message is that of `error` in the words of
    /// [`engine_message`](super::engine_message).
    fn explained(&self, error: &anyhow::Error) -> Fault {
        self.bundle.original(self.bundle.fault_of_engine(error))
    }

    /// A fault with the kind of `error`, at the place of the error in the module's text.
    fn fault(&self, error: &anyhow::Error) -> Fault {
        let Fault { module, place, .. } = self.bundle.fault_of_engine(error);
        let kind = match error.downcast_ref::<LimitError>() {
            Some(LimitError::TimeLimitExceeded { .. }) => EvaluationError::Time,
            Some(LimitError::MemoryLimitExceeded { .. }) => EvaluationError::Memory,
            _ => EvaluationError::of_engine(split_place(&error.to_string()).1),
        };
        // If there is no module of this name, the error is in the query.
        match self.bundle.module(&module) {
            Some(_) => self.bundle.original(kind.at(&module, place)),
            None => kind.at(&self.bundle.first_module(), None),
        }
    }

    fn failure(&self, query: &str, error: &anyhow::Error, mut fault: Fault) -> Failure {
        let exceeded_time = is_timeout(error);
        if exceeded_time {
            fault = self.limit_fault(query, &format!("{} s", LIMIT.as_secs()));
        }
        Failure { exceeded_time, exceeded_memory: false, fault }
    }

    /// The failure of an evaluation that exceeded its memory limit. The failure has the place of `error`, if `error`
    /// has one.
    fn over_limit(&self, query: &str, over: OverLimit, error: Option<&anyhow::Error>) -> Failure {
        let fault = error
            .map_or_else(|| Fault::new(&self.bundle.first_module(), None, ""), |error| self.fault(error));
        let fault = match fault.place {
            Some(place) => Fault::new(&fault.module, place, over.to_string()),
            None => self.limit_fault(query, &over.limit()),
        };
        Failure { exceeded_time: false, exceeded_memory: true, fault }
    }

    /// The fault of a `query` that exceeded a limit. It omits the `with` clauses of the query, which can contain names of
    /// the objects under review.
    fn limit_fault(&self, query: &str, limit: &str) -> Fault {
        let query = query.split(" with ").next().unwrap_or(query);
        // The engine's error does not name the module. The fault names the only module of the query's package, or the
        // package if it has several modules.
        let package = self.bundle.package_of(query);
        let module =
            package.map_or_else(|| self.bundle.first_module(), |package| self.bundle.name_of(&package));
        Fault::new(&module, None, format!("{query} took more than {limit}"))
    }
}

/// An empty object at the path of each package. In OPA, the value of a package without rules is an empty object; the
/// engine omits such a package if there are other packages.
fn packages(bundle: &Bundle) -> Value {
    let mut packages = Value::new_object();
    for (path, _) in bundle.modules().flat_map(LoadedModule::packages) {
        let package = path.iter().rfold(Value::new_object(), |inner, part| {
            BTreeMap::from([(Value::from(part.as_str()), inner)]).into()
        });
        add_missing(&package, &mut packages);
    }
    packages
}

/// Adds the keys of `more` that `to` lacks, if both are objects.
fn add_missing(more: &Value, to: &mut Value) {
    let Value::Object(more) = more else { return };
    for (key, more) in more.iter() {
        let is_present = match &*to {
            Value::Object(fields) => fields.get(key).is_some_and(|found| !lacks(found, more)),
            _ => true,
        };
        if is_present {
            continue;
        }
        // `as_object_mut` copies an object that other values share.
        let Ok(fields) = to.as_object_mut() else { return };
        match fields.get_mut(key) {
            Some(found) => add_missing(more, found),
            None => drop(fields.insert(key.clone(), more.clone())),
        }
    }
}

/// Whether [`add_missing`] would change `value`.
fn lacks(value: &Value, more: &Value) -> bool {
    let (Value::Object(fields), Value::Object(more)) = (value, more) else { return false };
    more.iter().any(|(key, more)| fields.get(key).is_none_or(|found| lacks(found, more)))
}

/// Whether a time limit caused `error`. For an error within a function, the engine passes on only the message, so the
/// message is compared.
fn is_timeout(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<LimitError>() {
        Some(limit) => matches!(limit, LimitError::TimeLimitExceeded { .. }),
        None => error.to_string().starts_with("execution exceeded time limit"),
    }
}

#[cfg(test)]
mod tests;
