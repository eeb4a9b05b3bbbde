//! Repairs syntax that the embedded engine does not parse. Each fault of the engine shows the place of one repair.
//!
//! - Rules of sets with several bodies, `deny[x] { … } { … }`. Each further body becomes a rule with the same head.
//! - Functions of the newer syntax with neither value nor body, `allowed("gold")`. Such functions get the value `true`.

use std::sync::Arc;

use regorus::unstable::{Module as Tree, Ref, Rule, RuleHead};

use super::{NO_VALUE, Syntax, name_of};
use crate::edit::{Edit, EditedText, offset, offset_of};
use crate::engine_message::ELSE_OF_SET;
use crate::fault::Fault;
use crate::parentheses::closing;
use crate::tree;

/// The maximum number of repairs of a module. The module is parsed again for each repair.
const REPAIRS: usize = 64;
/// The text of a repair until the module is parsed and the repaired rule is known. The placeholder is the name of the
/// set before a further body, or the value of a function.
const PLACEHOLDER: &str = "policysync_repair";
/// The text between a head and its body in the newer syntax.
const IF: &str = " if ";

/// A parsed text.
pub(super) struct Parsed {
    pub(super) syntax: Syntax,
    /// The text from which `tree` was parsed.
    pub(super) text: Arc<str>,
    pub(super) tree: Ref<Tree>,
}

/// A fault at its place in the original, and the syntax in which it occurs.
pub(super) type Unparsed = (Fault, Syntax);

/// Parses `read`, with repairs if necessary. Also returns the repaired text.
///
/// # Errors
///
/// If the text does not parse, or needs too many repairs.
pub(super) fn parsed(
    read: EditedText,
    parse: &dyn Fn(&EditedText) -> Result<Parsed, Unparsed>,
) -> Result<(EditedText, Parsed), Fault> {
    let (mut repairs, mut last) = (Vec::<Edit>::new(), None);
    let placeholders = loop {
        match parse(&read.and(&repairs)) {
            Ok(parsed) => break parsed,
            Err((fault, syntax)) => {
                let is_new = |repair: &Edit| repairs.iter().all(|other| other.start != repair.start);
                match repair(&read, &fault, syntax).filter(is_new) {
                    Some(repair) if repairs.len() < REPAIRS => repairs.push(repair),
                    _ => {
                        // Adding a value repairs only functions. For other rules, the fault before the repair is
                        // returned.
                        let fault = last.filter(|last: &Fault| last.text == NO_VALUE).unwrap_or(fault);
                        return Err(explained(&read, fault));
                    }
                }
                last = Some(fault);
            }
        }
    };
    let Some(last) = last else { return Ok((read, placeholders)) };
    repairs.sort_by_key(|repair| repair.start);
    if !fill_placeholders(&placeholders, &mut repairs) {
        return Err(last);
    }
    let repaired = read.and(&repairs);
    let parsed = parse(&repaired).map_err(|(fault, _)| explained(&read, fault))?;
    Ok((repaired, parsed))
}

/// The repair for `fault`, with a placeholder.
fn repair(read: &EditedText, fault: &Fault, syntax: Syntax) -> Option<Edit> {
    let original = read.source();
    if original.contains(PLACEHOLDER) {
        return None;
    }
    let at = offset_of(original, fault.place?);
    if is_body(original, at, fault) {
        // The inserted head also defines a set, so that the engine reports the next body of the rule, too.
        let head = match syntax {
            Syntax::V1 => format!("{PLACEHOLDER} contains 1{IF}"),
            Syntax::V0 => format!("{PLACEHOLDER}[1] "),
        };
        return Some(Edit::insert(offset(at), head));
    }
    if fault.text != NO_VALUE {
        return None;
    }
    // The fault is at the start of the rule.
    let rest = &original[at..];
    let name = rest.find(|next: char| !(next.is_ascii_alphanumeric() || matches!(next, '_' | '.')))?;
    let end = rest[name..].starts_with('(').then(|| closing(original, at + name))??;
    Some(Edit::insert(offset(end), format!(" := \"{PLACEHOLDER}\"")))
}

/// Whether `fault` refers to the body of a set at this offset.
fn is_body(original: &str, at: usize, fault: &Fault) -> bool {
    fault.text == ELSE_OF_SET && original[at..].starts_with('{')
}

/// Replaces the text of `fault` if it refers to a further body that was not repaired.
fn explained(read: &EditedText, fault: Fault) -> Fault {
    let original = read.source();
    match fault.place.map(|place| offset_of(original, place)) {
        Some(at) if is_body(original, at, &fault) => Fault {
            text: "a rule for a set can have only one body: write the rule twice".to_owned(),
            ..fault
        },
        _ => fault,
    }
}

/// Replaces the placeholders in `repairs`. A further body gets the head of the rule before it. A function gets the
/// value `true`. Returns false if a placeholder is the value of a rule that is not a function.
///
/// A head of several lines is not repeated, because lines must keep their numbers. The engine then rejects the body
/// again.
fn fill_placeholders(parsed: &Parsed, repairs: &mut [Edit]) -> bool {
    let (mut repairs, mut head) = (repairs.iter_mut(), "");
    for rule in &parsed.tree.policy {
        let Rule::Spec { head: of_rule, .. } = rule.as_ref() else { continue };
        if name_of(tree::reference(rule)) == Some(PLACEHOLDER) {
            let Some(repair) = repairs.next() else { return false };
            let end = if repair.text.ends_with(IF) { IF } else { " " };
            repair.text = if head.contains('\n') { String::new() } else { format!("{head}{end}") };
        } else if tree::head_value(rule).and_then(tree::constant) == Some(PLACEHOLDER) {
            let Some(repair) = repairs.next() else { return false };
            if !matches!(of_rule, RuleHead::Func { .. }) {
                return false;
            }
            repair.text = " := true".to_owned();
        } else if let RuleHead::Set { span, .. } = of_rule {
            let rest = &parsed.text[span.end as usize..];
            let end = span.end as usize + usize::from(rest.starts_with(['"', '`']));
            head = &parsed.text[span.start as usize..end];
        }
    }
    repairs.next().is_none()
}
