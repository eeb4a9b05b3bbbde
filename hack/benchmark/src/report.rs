//! Results as a table for people and as JSON for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::sample::Sample;

/// One measured value and its goal. A row of the table may have several measured values.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    id: &'static str,
    measure: String,
    value: f64,
    unit: &'static str,
    goal: f64,
    holds: bool,
    /// The values from which `value` is computed, as text.
    detail: String,
}

impl Measure {
    /// A value that must not exceed its goal.
    pub(super) fn at_most(
        id: &'static str,
        measure: impl Into<String>,
        value: f64,
        unit: &'static str,
        goal: f64,
    ) -> Self {
        Self { id, measure: measure.into(), value, unit, goal, holds: value <= goal, detail: String::new() }
    }

    /// The ratio of the controller's median to the baseline's median.
    pub(super) fn ratio(
        id: &'static str,
        measure: impl Into<String>,
        controller: &Sample,
        raw: &Sample,
        goal: f64,
    ) -> Self {
        let ratio = controller.median() / raw.median();
        Self::at_most(id, measure, ratio, "×", goal).detail(against(controller, raw))
    }

    #[must_use]
    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// Whether the goal is reached.
    pub fn holds(&self) -> bool {
        self.holds
    }
}

/// Minimum, median and maximum of the controller and of the baseline in seconds, as text.
pub(super) fn against(controller: &Sample, raw: &Sample) -> String {
    let spread =
        |sample: &Sample| format!("{:.3}/{:.3}/{:.3} s", sample.min(), sample.median(), sample.max());
    format!("{} against {}", spread(controller), spread(raw))
}

/// Prints the table.
pub(super) fn print(measures: &[Measure]) {
    let wide = measures.iter().map(|measure| measure.measure.chars().count()).max().unwrap_or_default();
    println!("\n{:<4} {:<wide$} {:>12} {:>10}       ", "", "measure", "value", "goal");
    for measure in measures {
        let Measure { id, value, unit, goal, detail, .. } = measure;
        let verdict = if measure.holds { "holds" } else { "FAILS" };
        let (value, goal) = (format!("{value:.3} {unit}"), format!("≤ {goal}"));
        println!("{id:<4} {:<wide$} {value:>12} {goal:>10} {verdict} {detail}", measure.measure);
    }
}

/// Writes the results as JSON.
pub(super) fn write(path: &Path, measures: &[Measure]) -> Result<()> {
    let text = serde_json::to_string_pretty(measures).context("serializing the results")?;
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
}

/// Prints progress on standard error, because a run takes minutes.
pub(super) fn progress(text: &str) {
    eprintln!("bench: {text}");
}
