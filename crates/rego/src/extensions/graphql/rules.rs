//! Validates GraphQL operations against a schema by the default rules of gqlparser's `validator/rules` package.
//!
//! The first violation ends the validation, because the result only states whether a document is valid. gqlparser
//! stores the definitions of nodes in the tree. Here, functions pass the definitions as arguments, because a definition
//! depends only on the place of a node.

mod overlaps;
mod values;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use self::overlaps::Overlaps;
use self::values::Expected;
use super::ast::{
    Argument, ArgumentDefinition, Definition, Directive, Field, FieldDefinition, FragmentDefinition,
    OperationDefinition, QueryDocument, Selection, Type,
};
use super::schema::{self, Schema, are_unique, has_cycle, is_composite, is_input};
use super::{DocumentError, Steps, VALIDATION_LEVELS};

/// Checks `document` against `schema`.
///
/// # Errors
///
/// If the document is invalid or the check exceeds a limit.
pub(super) fn check(schema: &Schema, document: &QueryDocument, steps: &Steps) -> Result<(), DocumentError> {
    let typename = FieldDefinition {
        name: "__typename".into(),
        of: Type { named: "String".into(), ..Type::default() },
        ..FieldDefinition::default()
    };
    let mut fragments = BTreeMap::new();
    for fragment in &document.fragments {
        // Names of fragments must be unique.
        valid(fragments.insert(&*fragment.name, fragment).is_none())?;
    }
    let walker = Walker { schema, document, steps, typename, fragments };
    walker.check_cycles()?;
    walker.check()
}

fn valid(is: bool) -> Result<(), DocumentError> {
    if is { Ok(()) } else { Err(DocumentError::Invalid) }
}

/// The cost of a visit to a selection, in comparisons of names.
const VISITED: usize = 10;

/// Checks the nesting of selections. A fragment counts at each place where it is used.
fn check_level(level: usize) -> Result<(), DocumentError> {
    if level > VALIDATION_LEVELS {
        return Err(DocumentError::Limit("levels, including those of fragments", VALIDATION_LEVELS));
    }
    Ok(())
}

struct Walker<'a> {
    schema: &'a Schema,
    document: &'a QueryDocument,
    steps: &'a Steps,
    /// The definition of the field `__typename`, which each type has.
    typename: FieldDefinition,
    fragments: BTreeMap<&'a str, &'a FragmentDefinition>,
}

/// The state of the walk through an operation or a fragment.
#[derive(Default)]
struct Walk<'a> {
    operation: Option<&'a OperationDefinition>,
    /// The positions of the variables in use.
    used: BTreeSet<usize>,
    /// The fragments whose selections have been walked.
    walked: BTreeSet<&'a str>,
    level: usize,
}

/// The state that is kept across operations.
#[derive(Default)]
struct State<'a> {
    overlaps: RefCell<Overlaps<'a>>,
    spread: RefCell<BTreeSet<&'a str>>,
}

/// A set of selections, with their type.
#[derive(Clone, Copy)]
struct Selections<'a> {
    items: &'a [Selection],
    parent: Option<&'a Definition>,
}

impl<'a> Walker<'a> {
    fn check_cycles(&self) -> Result<(), DocumentError> {
        let spreads =
            self.fragments.iter().map(|(name, fragment)| (*name, spreads_within(&fragment.selections)));
        valid(!has_cycle(&mut spreads.collect()))
    }

    fn check(&'a self) -> Result<(), DocumentError> {
        let operations = &self.document.operations;
        let state = State::default();
        for operation in operations {
            self.operation(operation, &state)?;
        }
        valid(operations.len() <= 1 || operations.iter().all(|operation| !operation.name.is_empty()))?;
        valid(are_unique(operations.iter().map(|operation| &operation.name)))?;
        for fragment in &self.document.fragments {
            self.fragment(fragment, &state)?;
            valid(state.spread.borrow().contains(&*fragment.name))?;
        }
        Ok(())
    }

    fn operation(
        &'a self,
        operation: &'a OperationDefinition,
        state: &State<'a>,
    ) -> Result<(), DocumentError> {
        let mut walk = Walk { operation: Some(operation), ..Walk::default() };
        valid(are_unique(operation.variables.iter().map(|variable| &variable.variable)))?;
        for variable in &operation.variables {
            let of = self.schema.get(variable.of.name()).ok_or(DocumentError::Invalid)?;
            valid(is_input(of))?;
            if let Some(default) = &variable.default {
                let expected = Expected { of: &variable.of, definition: Some(of) };
                self.value(default, Some(expected), default.has_default, &mut walk)?;
            }
            self.directives(&variable.directives, "VARIABLE_DEFINITION", &mut walk)?;
        }
        let root = self.schema.root(&operation.operation).ok_or(DocumentError::Invalid)?;
        let location = match &*operation.operation {
            "mutation" => "MUTATION",
            "subscription" => "SUBSCRIPTION",
            _ => "QUERY",
        };
        self.directives(&operation.directives, location, &mut walk)?;
        let selections = Selections { items: &operation.selections, parent: Some(root) };
        self.selections(selections, &mut walk, state)?;
        let is_used = |(at, variable): (usize, &super::ast::VariableDefinition)| {
            variable.used || walk.used.contains(&at)
        };
        valid(operation.variables.iter().enumerate().all(is_used))?;
        if &*operation.operation == "subscription" {
            self.subscription(operation)?;
        }
        state.overlaps.borrow_mut().check(self, selections)
    }

    fn fragment(&'a self, fragment: &'a FragmentDefinition, state: &State<'a>) -> Result<(), DocumentError> {
        let mut walk = Walk::default();
        let of = self.schema.get(&fragment.condition).ok_or(DocumentError::Invalid)?;
        valid(is_composite(of))?;
        self.directives(&fragment.directives, "FRAGMENT_DEFINITION", &mut walk)?;
        let selections = Selections { items: &fragment.selections, parent: Some(of) };
        self.selections(selections, &mut walk, state)?;
        state.overlaps.borrow_mut().check(self, selections)
    }

    fn directives(
        &'a self,
        directives: &'a [Directive],
        location: &str,
        walk: &mut Walk<'a>,
    ) -> Result<(), DocumentError> {
        let mut seen = BTreeSet::new();
        for directive in directives {
            let definition = self.schema.directive(&directive.name).ok_or(DocumentError::Invalid)?;
            self.steps.count(definition.locations.len())?;
            valid(definition.locations.iter().any(|allowed| **allowed == *location))?;
            self.arguments(&directive.arguments, Some(&definition.arguments), walk)?;
            valid(definition.repeatable || seen.insert(&directive.name))?;
        }
        Ok(())
    }

    /// Checks the arguments of a field or a directive, whose definition may be unknown.
    fn arguments(
        &'a self,
        arguments: &'a [Argument],
        definitions: Option<&'a [ArgumentDefinition]>,
        walk: &mut Walk<'a>,
    ) -> Result<(), DocumentError> {
        valid(are_unique(arguments.iter().map(|argument| &argument.name)))?;
        for argument in arguments {
            let definition = match definitions {
                None => None,
                Some(all) => {
                    Some(schema::argument(all, &argument.name, self.steps)?.ok_or(DocumentError::Invalid)?)
                }
            };
            let expected = definition.map(|definition| Expected {
                of: &definition.of,
                definition: self.schema.get(definition.of.name()),
            });
            let has_default = definition.map_or(argument.value.has_default, |definition| {
                values::has_default(definition.default.as_ref())
            });
            self.value(&argument.value, expected, has_default, walk)?;
        }
        for definition in definitions.unwrap_or_default() {
            self.steps.count(arguments.len())?;
            let is_required = definition.of.non_null && definition.default.is_none();
            valid(!is_required || arguments.iter().any(|argument| argument.name == definition.name))?;
        }
        Ok(())
    }

    fn selections(
        &'a self,
        selections: Selections<'a>,
        walk: &mut Walk<'a>,
        state: &State<'a>,
    ) -> Result<(), DocumentError> {
        walk.level += 1;
        check_level(walk.level)?;
        for selection in selections.items {
            self.steps.count(1)?;
            match selection {
                Selection::Field(field) => self.field(field, selections.parent, walk, state)?,
                Selection::InlineFragment(fragment) => {
                    let condition = &fragment.condition;
                    let parent = if condition.is_empty() {
                        selections.parent
                    } else {
                        Some(self.schema.get(condition).ok_or(DocumentError::Invalid)?)
                    };
                    self.directives(&fragment.directives, "INLINE_FRAGMENT", walk)?;
                    let inner = Selections { items: &fragment.selections, parent };
                    self.selections(inner, walk, state)?;
                    if !condition.is_empty() {
                        valid(parent.is_some_and(is_composite))?;
                        self.possible_spread(selections.parent, condition)?;
                    }
                    state.overlaps.borrow_mut().check(self, inner)?;
                }
                Selection::FragmentSpread(spread) => {
                    let fragment = *self.fragments.get(&*spread.name).ok_or(DocumentError::Invalid)?;
                    self.directives(&spread.directives, "FRAGMENT_SPREAD", walk)?;
                    if walk.walked.insert(&fragment.name) {
                        let parent = self.schema.get(&fragment.condition);
                        self.directives(&fragment.directives, "FRAGMENT_DEFINITION", walk)?;
                        self.selections(Selections { items: &fragment.selections, parent }, walk, state)?;
                    }
                    if walk.operation.is_some() {
                        state.spread.borrow_mut().insert(&spread.name);
                    }
                    self.possible_spread(selections.parent, &fragment.condition)?;
                }
            }
        }
        walk.level -= 1;
        Ok(())
    }

    /// The definition of `field` in the type `parent`.
    fn definition(
        &'a self,
        field: &Field,
        parent: Option<&'a Definition>,
    ) -> Result<Option<&'a FieldDefinition>, DocumentError> {
        if &*field.name == "__typename" {
            return Ok(Some(&self.typename));
        }
        parent.map_or(Ok(None), |parent| schema::field(&parent.fields, &field.name, self.steps))
    }

    /// The selections of a field.
    fn selected(&'a self, field: &'a Field, definition: Option<&FieldDefinition>) -> Selections<'a> {
        let parent = definition.and_then(|definition| self.schema.get(definition.of.name()));
        Selections { items: &field.selections, parent }
    }

    fn field(
        &'a self,
        field: &'a Field,
        parent: Option<&'a Definition>,
        walk: &mut Walk<'a>,
        state: &State<'a>,
    ) -> Result<(), DocumentError> {
        let definition = self.definition(field, parent)?;
        valid(parent.is_none() || definition.is_some())?;
        let arguments = definition.map(|definition| definition.arguments.as_slice());
        self.arguments(&field.arguments, arguments, walk)?;
        self.directives(&field.directives, "FIELD", walk)?;
        let selected = self.selected(field, definition);
        self.selections(selected, walk, state)?;
        if &*field.name == "__schema" || &*field.name == "__type" {
            self.introspection(field, &mut BTreeSet::new(), 0, 0)?;
        }
        if let Some(of) = selected.parent {
            let is_leaf = matches!(&*of.kind, "ENUM" | "SCALAR");
            valid(is_leaf == field.selections.is_empty())?;
        }
        if walk.operation.is_none() {
            return Ok(());
        }
        state.overlaps.borrow_mut().check(self, selected)
    }

    /// Checks that the types `parent` and `condition` have an object type in common. Unknown types are accepted.
    fn possible_spread(&self, parent: Option<&Definition>, condition: &str) -> Result<(), DocumentError> {
        let (Some(parent), Some(fragment)) = (parent, self.schema.get(condition)) else { return Ok(()) };
        if !is_composite(parent) || !is_composite(fragment) {
            return Ok(());
        }
        let own = std::slice::from_ref(&parent.name);
        let parents = if &*parent.kind == "OBJECT" { own } else { self.schema.possible_types(&parent.name) };
        let of_fragment = self.schema.possible_types(&fragment.name);
        self.steps.count(parents.len().saturating_add(of_fragment.len()))?;
        let of_fragment: BTreeSet<_> = of_fragment.iter().collect();
        valid(parents.iter().any(|parent| of_fragment.contains(parent)))
    }

    /// Limits the depth of lists of types in introspection queries.
    fn introspection(
        &self,
        field: &'a Field,
        visited: &mut BTreeSet<&'a str>,
        lists: usize,
        level: usize,
    ) -> Result<(), DocumentError> {
        const LISTS: usize = 3;
        let is_list = matches!(&*field.name, "fields" | "interfaces" | "possibleTypes" | "inputFields");
        let lists = lists + usize::from(is_list);
        valid(!is_list || lists < LISTS)?;
        self.introspections(&field.selections, visited, lists, level)
    }

    fn introspections(
        &self,
        selections: &'a [Selection],
        visited: &mut BTreeSet<&'a str>,
        lists: usize,
        level: usize,
    ) -> Result<(), DocumentError> {
        check_level(level)?;
        for selection in selections {
            self.steps.count(VISITED)?;
            match selection {
                Selection::Field(field) => self.introspection(field, visited, lists, level + 1)?,
                Selection::InlineFragment(fragment) => {
                    self.introspections(&fragment.selections, visited, lists, level + 1)?;
                }
                Selection::FragmentSpread(spread) => {
                    let Some(fragment) = self.fragments.get(&*spread.name) else { continue };
                    if visited.insert(&spread.name) {
                        self.introspections(&fragment.selections, visited, lists, level + 1)?;
                        visited.remove(&*spread.name);
                    }
                }
            }
        }
        Ok(())
    }

    /// A subscription must have exactly one field, which must not be an introspection field.
    fn subscription(&self, operation: &'a OperationDefinition) -> Result<(), DocumentError> {
        let mut names = BTreeSet::new();
        let mut visited = BTreeSet::new();
        self.top_fields(&operation.selections, &mut names, &mut visited, 0)?;
        valid(names.len() <= 1 && names.iter().all(|name| !name.starts_with("__")))
    }

    fn top_fields(
        &self,
        selections: &'a [Selection],
        names: &mut BTreeSet<&'a str>,
        visited: &mut BTreeSet<&'a str>,
        level: usize,
    ) -> Result<(), DocumentError> {
        check_level(level)?;
        for selection in selections {
            self.steps.count(1)?;
            match selection {
                Selection::Field(field) => {
                    names.insert(&field.name);
                }
                Selection::InlineFragment(fragment) => {
                    self.top_fields(&fragment.selections, names, visited, level + 1)?;
                }
                Selection::FragmentSpread(spread) => {
                    let Some(fragment) = self.fragments.get(&*spread.name) else { return Ok(()) };
                    if visited.insert(&spread.name) {
                        self.top_fields(&fragment.selections, names, visited, level + 1)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The names of the fragments in these selections, at all levels.
fn spreads_within(selections: &[Selection]) -> Vec<&str> {
    let mut spreads = Vec::new();
    let mut rest = vec![selections];
    while let Some(selections) = rest.pop() {
        for selection in selections {
            match selection {
                Selection::Field(field) => rest.push(&field.selections),
                Selection::InlineFragment(fragment) => rest.push(&fragment.selections),
                Selection::FragmentSpread(spread) => spreads.push(&*spread.name),
            }
        }
    }
    spreads
}
