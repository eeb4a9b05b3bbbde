//! Checks the GraphQL rule that fields with the same name in a result must be mergeable. The steps and their letters
//! are those of gqlparser's `OverlappingFieldsCanBeMergedRule`.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ast::{
    Argument, ChildValue, Definition, Field, FragmentDefinition, InputValue, Selection, Type, ValueKind,
};
use super::super::{DocumentError, PAIRS};
use super::{Selections, Walker, check_level, valid};

/// The cost of comparing two fields, or of collecting a field, in comparisons of names.
const COMPARED: usize = 20;
const COLLECTED: usize = 10;

/// A field, with its type.
#[derive(Clone, Copy)]
struct Selected<'a> {
    field: &'a Field,
    parent: Option<&'a Definition>,
}

/// The fields of a set of selections, by the order of their names in the result, and the fragments in the set.
#[derive(Default)]
struct Collected<'a> {
    names: Vec<&'a str>,
    fields: BTreeMap<&'a str, Vec<Selected<'a>>>,
    spreads: Vec<&'a str>,
}

impl Collected<'_> {
    fn is_same(&self, other: &Self) -> bool {
        let fields = |of: &Self| -> Vec<*const Field> {
            of.names
                .iter()
                .flat_map(|name| of.fields[name].iter().map(|selected| std::ptr::from_ref(selected.field)))
                .collect()
        };
        self.names == other.names && fields(self) == fields(other)
    }
}

/// The pairs that have been compared in a document.
#[derive(Default)]
pub(super) struct Overlaps<'a> {
    /// Pairs of fragments, and whether they were compared as mutually exclusive.
    pairs: BTreeMap<(&'a str, &'a str), bool>,
    fragments: BTreeSet<&'a str>,
    level: usize,
}

impl<'a> Overlaps<'a> {
    /// Checks a set of selections.
    ///
    /// # Errors
    ///
    /// If fields in the set conflict, or the check exceeds a limit.
    pub(super) fn check(
        &mut self,
        walker: &'a Walker<'a>,
        selections: Selections<'a>,
    ) -> Result<(), DocumentError> {
        let collected = collect(walker, selections)?;
        // (A)
        for name in &collected.names {
            let fields = &collected.fields[name];
            for (at, first) in fields.iter().enumerate() {
                for second in &fields[at + 1..] {
                    self.compare(walker, *first, *second, false)?;
                }
            }
        }
        self.fragments.clear();
        for (at, first) in collected.spreads.iter().enumerate() {
            // (B)
            self.fields_and_fragment(walker, &collected, first, false)?;
            // (C)
            for second in &collected.spreads[at + 1..] {
                self.two_fragments(walker, first, second, false)?;
            }
        }
        Ok(())
    }

    fn nested(
        &mut self,
        check: impl FnOnce(&mut Self) -> Result<(), DocumentError>,
    ) -> Result<(), DocumentError> {
        self.level += 1;
        check_level(self.level)?;
        check(self)?;
        self.level -= 1;
        Ok(())
    }

    fn fields_and_fragment(
        &mut self,
        walker: &'a Walker<'a>,
        fields: &Collected<'a>,
        name: &'a str,
        exclusive: bool,
    ) -> Result<(), DocumentError> {
        walker.steps.count(fields.names.len())?;
        if !self.fragments.insert(name) {
            return Ok(());
        }
        let Some(fragment) = walker.fragments.get(name) else { return Ok(()) };
        let others = collect(walker, of_fragment(walker, fragment))?;
        if fields.is_same(&others) {
            return Ok(());
        }
        // (D)
        self.between(walker, fields, &others, exclusive)?;
        // (E)
        for other in others.spreads.iter().filter(|other| **other != name) {
            self.nested(|overlaps| overlaps.fields_and_fragment(walker, fields, other, exclusive))?;
        }
        Ok(())
    }

    fn two_fragments(
        &mut self,
        walker: &'a Walker<'a>,
        first: &'a str,
        second: &'a str,
        exclusive: bool,
    ) -> Result<(), DocumentError> {
        walker.steps.count(1)?;
        if first == second {
            return Ok(());
        }
        let compared = self.pairs.get(&(first, second));
        if compared.is_some_and(|compared| exclusive || !compared) {
            return Ok(());
        }
        if self.pairs.len() >= 2 * PAIRS {
            return Err(DocumentError::Limit("pairs of fragments", PAIRS));
        }
        self.pairs.insert((first, second), exclusive);
        self.pairs.insert((second, first), exclusive);
        let (Some(of_first), Some(of_second)) = (walker.fragments.get(first), walker.fragments.get(second))
        else {
            return Ok(());
        };
        let fields = collect(walker, of_fragment(walker, of_first))?;
        let others = collect(walker, of_fragment(walker, of_second))?;
        // (F)
        self.between(walker, &fields, &others, exclusive)?;
        // (G)
        for other in &others.spreads {
            self.nested(|overlaps| overlaps.two_fragments(walker, first, other, exclusive))?;
        }
        for other in &fields.spreads {
            self.nested(|overlaps| overlaps.two_fragments(walker, other, second, exclusive))?;
        }
        Ok(())
    }

    fn two_selections(
        &mut self,
        walker: &'a Walker<'a>,
        first: Selections<'a>,
        second: Selections<'a>,
        exclusive: bool,
    ) -> Result<(), DocumentError> {
        let (first, second) = (collect(walker, first)?, collect(walker, second)?);
        // (H)
        self.between(walker, &first, &second, exclusive)?;
        // (I)
        for spread in &second.spreads {
            self.fragments.clear();
            self.fields_and_fragment(walker, &first, spread, exclusive)?;
        }
        for spread in &first.spreads {
            self.fragments.clear();
            self.fields_and_fragment(walker, &second, spread, exclusive)?;
        }
        // (J)
        for of_first in &first.spreads {
            for of_second in &second.spreads {
                self.two_fragments(walker, of_first, of_second, exclusive)?;
            }
        }
        Ok(())
    }

    fn between(
        &mut self,
        walker: &'a Walker<'a>,
        first: &Collected<'a>,
        second: &Collected<'a>,
        exclusive: bool,
    ) -> Result<(), DocumentError> {
        for name in &first.names {
            walker.steps.count(1)?;
            let Some(others) = second.fields.get(name) else { continue };
            for of_first in &first.fields[name] {
                for of_second in others {
                    self.compare(walker, *of_first, *of_second, exclusive)?;
                }
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        walker: &'a Walker<'a>,
        first: Selected<'a>,
        second: Selected<'a>,
        exclusive: bool,
    ) -> Result<(), DocumentError> {
        walker.steps.count(COMPARED)?;
        let (Some(parent), Some(other_parent)) = (first.parent, second.parent) else { return Ok(()) };
        let definition = walker.definition(first.field, first.parent)?;
        let other_definition = walker.definition(second.field, second.parent)?;
        let exclusive = exclusive
            || parent.name != other_parent.name
                && &*parent.kind == "OBJECT"
                && &*other_parent.kind == "OBJECT"
                && definition.is_some()
                && other_definition.is_some();
        if !exclusive {
            valid(first.field.name == second.field.name)?;
            valid(are_same(walker, &first.field.arguments, &second.field.arguments)?)?;
        }
        if let (Some(definition), Some(other)) = (definition, other_definition) {
            valid(!do_conflict(walker, &definition.of, &other.of))?;
        }
        self.nested(|overlaps| {
            let selections = walker.selected(first.field, definition);
            let others = walker.selected(second.field, other_definition);
            overlaps.two_selections(walker, selections, others, exclusive)
        })
    }
}

fn of_fragment<'a>(walker: &'a Walker<'a>, fragment: &'a FragmentDefinition) -> Selections<'a> {
    Selections { items: &fragment.selections, parent: walker.schema.get(&fragment.condition) }
}

fn collect<'a>(walker: &'a Walker<'a>, selections: Selections<'a>) -> Result<Collected<'a>, DocumentError> {
    let mut collected = Collected::default();
    add(walker, selections, &mut collected)?;
    Ok(collected)
}

fn add<'a>(
    walker: &'a Walker<'a>,
    selections: Selections<'a>,
    collected: &mut Collected<'a>,
) -> Result<(), DocumentError> {
    for selection in selections.items {
        walker.steps.count(COLLECTED)?;
        match selection {
            Selection::Field(field) => {
                let name = if field.alias.is_empty() { &*field.name } else { &*field.alias };
                let fields = collected.fields.entry(name).or_default();
                if fields.is_empty() {
                    collected.names.push(name);
                }
                fields.push(Selected { field, parent: selections.parent });
            }
            Selection::InlineFragment(fragment) => {
                let condition = &fragment.condition;
                let parent =
                    if condition.is_empty() { selections.parent } else { walker.schema.get(condition) };
                add(walker, Selections { items: &fragment.selections, parent }, collected)?;
            }
            Selection::FragmentSpread(spread) => collected.spreads.push(&spread.name),
        }
    }
    Ok(())
}

fn are_same(walker: &Walker<'_>, first: &[Argument], second: &[Argument]) -> Result<bool, DocumentError> {
    if first.len() != second.len() {
        return Ok(false);
    }
    for argument in first {
        walker.steps.count(second.len())?;
        let mut found = false;
        for other in second.iter().filter(|other| other.name == argument.name) {
            found = found || is_same(walker, &argument.value, &other.value)?;
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two values are equal, regardless of the order of fields in objects.
fn is_same(walker: &Walker<'_>, first: &InputValue, second: &InputValue) -> Result<bool, DocumentError> {
    walker.steps.count(first.children.len())?;
    if first.kind != second.kind || first.raw != second.raw || first.children.len() != second.children.len() {
        return Ok(false);
    }
    let mut of_first: Vec<&ChildValue> = first.children.iter().collect();
    let mut of_second: Vec<&ChildValue> = second.children.iter().collect();
    if first.is(ValueKind::Object) {
        of_first.sort_by(|child, other| child.name.cmp(&other.name));
        of_second.sort_by(|child, other| child.name.cmp(&other.name));
    }
    for (child, other) in of_first.into_iter().zip(of_second) {
        if child.name != other.name || !is_same(walker, &child.value, &other.value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether values of these types have different shapes.
fn do_conflict(walker: &Walker<'_>, first: &Type, second: &Type) -> bool {
    match (&first.element, &second.element) {
        (Some(first), Some(second)) => return do_conflict(walker, first, second),
        (None, None) => {}
        _ => return true,
    }
    let leaf = |of: &Type| {
        walker.schema.get(&of.named).filter(|definition| matches!(&*definition.kind, "SCALAR" | "ENUM"))
    };
    let differ =
        matches!((leaf(first), leaf(second)), (Some(first), Some(second)) if first.name != second.name);
    first.non_null != second.non_null || differ
}
