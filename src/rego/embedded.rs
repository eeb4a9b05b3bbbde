//! The engine that is part of this process.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, QueryResults, Value};

use super::bundle::Bundle;
use super::culprits::package_of;
use super::engine_error::Failure;
use super::extensions;
use super::fault::Fault;
use super::module::ModuleId;

/// How long an evaluation may take.
pub(super) const LIMIT: Duration = Duration::from_secs(1);
/// How the engine's error begins where it takes longer.
const TIME_LIMIT: &str = "execution exceeded time limit";
/// After how many steps of one the clock is looked at.
const STEPS: NonZeroU32 = NonZeroU32::new(1_000).unwrap();

/// Modules and data, ready to be asked by many at once.
#[derive(Clone, Debug)]
pub struct Embedded {
    engine: Engine,
    bundle: Arc<Bundle>,
}

/// What an evaluation comes to.
#[derive(Debug)]
pub struct Evaluated {
    /// Each way in which the query holds; none where it is undefined.
    pub results: QueryResults,
    /// What `print` was called with.
    pub prints: Vec<String>,
}

impl Evaluated {
    /// The value of the query's first expression, `None` where it is undefined.
    #[must_use]
    pub fn into_value(self) -> Option<Value> {
        let expressions = self.results.result.into_iter().next()?.expressions;
        let value = expressions.into_iter().next()?.value;
        (value != Value::Undefined).then_some(value)
    }
}

impl Embedded {
    /// An engine for `bundle`, with this `data`.
    ///
    /// # Errors
    ///
    /// Where a module does not fit the others, or `data` is no object.
    pub fn new(bundle: &Bundle, data: Value) -> Result<Self, Fault> {
        Self::without_data(bundle)?.with_data(data)
    }

    /// An engine for `bundle`, without data, from which others are made. It is not prepared: that takes as much memory as its modules.
    ///
    /// # Errors
    ///
    /// Where a module cannot be read.
    pub fn without_data(bundle: &Bundle) -> Result<Self, Fault> {
        let mut engine = bundle.engine()?;
        extensions::add_to(&mut engine)
            .map_err(|error| bundle.original(Fault::of_engine(&bundle.some_module(), &error)))?;
        // Builtins that fail are undefined, as in OPA.
        engine.set_strict_builtin_errors(false);
        engine.set_gather_prints(true);
        engine.set_execution_timer_config(ExecutionTimerConfig { limit: LIMIT, check_interval: STEPS });
        Ok(Self { engine, bundle: Arc::new(bundle.clone()) })
    }

    /// The same modules with other data.
    ///
    /// # Errors
    ///
    /// Where `data` is no object.
    pub fn with_data(&self, data: Value) -> Result<Self, Fault> {
        let mut engine = self.engine.clone();
        engine.clear_data();
        engine.add_data(data).map_err(|error| self.fault(&error))?;
        // Prepares it, once for all clones.
        engine.eval_query("true".to_owned(), false).map_err(|error| self.fault(&error))?;
        Ok(Self { engine, ..self.clone() })
    }

    /// The same data with these modules alone.
    ///
    /// # Errors
    ///
    /// Where these do not fit each other.
    pub(super) fn of_some(&self, modules: &HashSet<ModuleId>) -> Result<Self, Fault> {
        Self::new(&self.bundle.of_some(modules), self.engine.get_data())
    }

    /// Its modules.
    pub(super) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Adds `more` data.
    ///
    /// # Errors
    ///
    /// Where it is no object, or something else is at a place already.
    pub fn add(&mut self, more: Value) -> Result<(), Fault> {
        self.engine.add_data(more).map_err(|error| self.fault(&error))
    }

    /// Evaluates `query`, such as `data.admission.deny`, of `input`.
    ///
    /// # Errors
    ///
    /// Where it cannot be evaluated, or takes more than a second.
    pub fn evaluate(&self, query: &str, input: &Value) -> Result<Evaluated, Failure> {
        let mut engine = self.engine.clone();
        engine.set_input(input.clone());
        let results =
            engine.eval_query(query.to_owned(), false).map_err(|error| self.failure(query, &error))?;
        let prints = engine.take_prints().unwrap_or_default();
        Ok(Evaluated { results, prints })
    }

    /// The value of `query`, `None` where it is undefined.
    ///
    /// # Errors
    ///
    /// As [`Self::evaluate`].
    pub fn ask(&self, query: &str, input: &Value) -> Result<Option<Value>, Failure> {
        Ok(self.evaluate(query, input)?.into_value())
    }

    /// What the engine says, where it was written.
    fn fault(&self, error: &anyhow::Error) -> Fault {
        self.bundle.original(Fault::of_engine(&self.bundle.some_module(), error))
    }

    fn failure(&self, query: &str, error: &anyhow::Error) -> Failure {
        let limit = error.downcast_ref::<LimitError>();
        // Of a function the engine keeps the words of the error alone.
        let too_long = matches!(limit, Some(LimitError::TimeLimitExceeded { .. }))
            || error.to_string().contains(TIME_LIMIT);
        let mut fault = self.fault(error);
        if too_long {
            // Without the names of what was asked about.
            let query = query.split(" with ").next().unwrap_or(query);
            // The engine does not say which module it was.
            let module = package_of(&self.bundle, query).map(|package| self.bundle.name_of(&package));
            let module = module.unwrap_or(fault.module);
            fault = Fault::new(&module, None, format!("{query} took more than {} s", LIMIT.as_secs()));
        }
        Failure { too_long, fault }
    }
}

#[cfg(test)]
mod tests;
