//! Keeps values out of the log if the engine panics.

use std::panic::{set_hook, take_hook};

use tracing::error;

/// From now on, a panic during an evaluation is logged without its message, which may quote a string from the engine.
/// Other panics are reported as before.
pub fn log_places_only() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        if !regorus_mimalloc::is_evaluating() {
            return before(panic);
        }
        let place = panic.location().map(ToString::to_string);
        error!(place, "an evaluation of Rego panicked");
    }));
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use tracing::Level;

    use super::*;
    use crate::memory::limited;
    use policy_sync_hub::telemetry::logs;

    #[test]
    fn panic_during_an_evaluation_is_logged_without_its_message() {
        log_places_only();
        // `tracing` caches for each log statement whether the statement is enabled. Without the second dispatcher,
        // another test that runs the statement first could disable it for this test.
        let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = logs::json(Arc::new(log.reopen().unwrap()), logs::default_filter(Level::INFO));
        let panicked = tracing::subscriber::with_default(subscriber, || {
            limited(|| catch_unwind(AssertUnwindSafe(|| -> () { panic!("hunter2 is no number") })))
        });
        assert!(panicked.is_ok_and(|result| result.is_err()));
        let logged = std::fs::read_to_string(log.path()).unwrap();
        assert!(
            logged.contains("an evaluation of Rego panicked") && logged.contains("panics.rs:"),
            "{logged}"
        );
        assert!(!logged.contains("hunter2"), "{logged}");
    }
}
