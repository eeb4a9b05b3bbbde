//! Finds test rules, and rules that provide sample inputs for reviews. The prefix of the name identifies such a rule.

use regorus::unstable::Rule;

use super::fault::Fault;
use super::module::{self, Module};
use super::queries::query;
use super::tree;

/// The prefix of test rules, which must be true.
pub const TEST_PREFIX: &str = "test_";
/// The prefix of rules that provide sample inputs for reviews.
pub const SAMPLE_PREFIX: &str = "sample_";

/// A test or sample rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixedRule {
    /// The query for the value of the rule.
    pub query: String,
    /// The name and the place of the rule.
    pub fault: Fault,
    /// The number of definitions of the rule. OPA runs each definition as a separate test.
    pub definitions: usize,
}

impl PrefixedRule {
    /// The tests and samples of `module`.
    pub(super) fn all(module: &Module) -> Vec<Self> {
        let rules = module.tree.policy.iter();
        rules
            .flat_map(|rule| [TEST_PREFIX, SAMPLE_PREFIX].map(|prefix| Self::of(module, rule, prefix)))
            .flatten()
            .collect()
    }

    /// The rule, if it has no arguments and its name begins with `prefix`.
    fn of(module: &Module, rule: &Rule, prefix: &str) -> Option<Self> {
        let reference = tree::reference(rule);
        let name = module::name_of(reference).filter(|name| name.starts_with(prefix))?;
        let query = tree::arity(rule).is_none().then(|| format!("{}.{name}", query(&module.package())))?;
        let bodies = match rule {
            Rule::Spec { bodies, .. } => bodies.iter().filter(|body| !body.is_else).count(),
            Rule::Default { .. } => 1,
        };
        let fault = module.fault(tree::start(reference), name);
        Some(Self { query, fault, definitions: bodies.max(1) })
    }
}
