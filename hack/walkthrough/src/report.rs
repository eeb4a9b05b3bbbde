//! The printed text of a demo: numbered steps, excerpts of objects, and results with their times.

use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::look::Fold;

/// Prints to standard output.
#[derive(Debug)]
pub(super) struct Report {
    colour: bool,
    started: Instant,
    step: Mutex<(usize, Instant)>,
}

impl Report {
    pub(super) fn new(what: &str) -> Self {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        println!("Policy Sync: {what}, only on this machine");
        Self { colour, started: Instant::now(), step: Mutex::new((0, Instant::now())) }
    }

    /// Starts a step, and its timer.
    pub(super) fn step(&self, title: &str) {
        let mut step = self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *step = (step.0 + 1, Instant::now());
        println!("\n{}", self.paint("1", &format!("{}. {title}", step.0)));
    }

    /// Prints a sentence.
    pub(super) fn print(&self, text: &str) {
        println!("   {text}");
    }

    /// Prints a result with the time since the start of the step.
    pub(super) fn print_result(&self, what: &str) {
        println!("   {} {:5.1} s  {what}", self.paint("32", "ok"), self.since_step().as_secs_f64());
    }

    /// Prints an excerpt of an object as YAML.
    pub(super) fn excerpt(&self, object: &Value) {
        let text = serde_saphyr::to_string(object).unwrap_or_else(|_| object.to_string());
        for line in text.lines() {
            println!("      {}", self.paint("2", line));
        }
    }

    /// Prints the annotations of the demo's policy, shortened to one line for each cluster.
    pub(super) fn fold(&self, fold: &Fold) {
        self.print_result("hub: the annotations of RateLimitPolicy shop/limits, in short:");
        for entry in &fold.entries {
            let applied = if entry.applied { "applied" } else { "not applied" };
            let enforced = entry.conditions.iter().find(|condition| condition.condition_type == "Enforced");
            let enforced = enforced.map_or_else(String::new, |condition| {
                let reason = condition.reason.as_deref().unwrap_or_default();
                format!("Enforced={} ({reason})", condition.status)
            });
            let fields = serde_json::to_string(&entry.fields).unwrap_or_default();
            self.print(&format!("   {}  {applied}  {enforced:<27} {fields}", entry.cluster));
        }
        self.print(&format!("   {}", serde_json::to_string(&fold.summary).unwrap_or_default()));
    }

    /// Prints the error of a failed step.
    pub(super) fn failed(&self, error: &anyhow::Error) {
        let step = self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0;
        println!("   {}", self.paint("31", "FAILED"));
        eprintln!("demo: step {step} failed: {error:#}");
    }

    /// Prints the last line.
    pub(super) fn ended(&self) {
        let steps = self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner).0;
        println!("\nAll {steps} steps succeeded in {:.0} s.", self.started.elapsed().as_secs_f64());
    }

    /// The time since the current step started.
    pub(super) fn since_step(&self) -> Duration {
        self.step.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1.elapsed()
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
