//! Faults of modules, with their places.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::engine_message;
use super::module::ModuleId;
use policy_sync_api::text::truncate_bytes;

/// The maximum number of faults of a bundle that are listed.
const MAX_LISTED_FAULTS: usize = 20;
/// The maximum size of a fault's text, in bytes. Longer texts are cut, because a text may quote a line of 4,096
/// columns.
const TEXT_LIMIT: usize = 1024;

/// A position in a module's text. Both numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
}

/// A fault of a module: `shop/policy/main.rego:4:3: unknown function foo.bar`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
#[error("{module}{}: {text}", PositionSuffix(*.place))]
pub struct Fault {
    /// The id of the module.
    pub module: ModuleId,
    /// The place; `None` for the whole module.
    pub place: Option<Position>,
    /// The description.
    pub text: String,
}

struct PositionSuffix(Option<Position>);

impl fmt::Display for PositionSuffix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(Position { line, column }) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

impl Fault {
    /// A fault at a place of `module`, or of the whole module. The text is cut at 1 KiB.
    #[must_use]
    pub fn new(module: &ModuleId, place: impl Into<Option<Position>>, text: impl AsRef<str>) -> Self {
        let text = truncate_bytes(text.as_ref(), TEXT_LIMIT).into_owned();
        Self { module: module.clone(), place: place.into(), text }
    }

    /// Converts an error of the engine, which begins with its place, as in this example. The message is
    /// [explained](engine_message::explained).
    ///
    /// ```text
    /// --> shop/policy/main.rego:4:3
    ///   |
    /// 4 |   foo.bar(1)
    ///   |   ^
    /// error: could not find function foo.bar
    /// ```
    ///
    /// An error without a place is attributed to `module`.
    pub(super) fn of_engine(module: &ModuleId, error: &anyhow::Error) -> Self {
        let error = error.to_string();
        let (place, message) = split_place(&error);
        let mut parts = place.rsplitn(3, ':');
        let (column, line, id) = (parts.next(), parts.next(), parts.next());
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let place = number(line).zip(number(column)).map(|(line, column)| Position { line, column });
        let module = id.filter(|_| place.is_some()).map_or_else(|| module.clone(), ModuleId::new);
        Self::new(&module, place, engine_message::explained(message))
    }
}

/// The place and the message of an engine's error. The place is empty if the error has none.
pub(super) fn split_place(error: &str) -> (&str, &str) {
    let placed = error.trim_start().strip_prefix("--> ").and_then(|error| error.split_once('\n'));
    let Some((place, rest)) = placed else { return ("", error.lines().next().unwrap_or_default()) };
    (place, rest.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or(rest))
}

/// The faults of a bundle: the first 20, and the number of further faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// The listed faults, sorted by module and place.
    pub listed: Vec<Fault>,
    /// The number of further faults.
    pub more: usize,
}

impl Faults {
    /// Sorts and deduplicates `faults`, and keeps the first 20.
    #[must_use]
    pub fn new(mut faults: Vec<Fault>) -> Self {
        faults.sort();
        faults.dedup();
        let more = faults.len().saturating_sub(MAX_LISTED_FAULTS);
        faults.truncate(MAX_LISTED_FAULTS);
        Self { listed: faults, more }
    }

    /// A single fault.
    #[must_use]
    pub fn of(fault: Fault) -> Self {
        Self::new(vec![fault])
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.listed {
            writeln!(f, "{fault}")?;
        }
        match self.more {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
