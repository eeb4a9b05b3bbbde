//! Keeps values out of the log when the engine panics.

use std::panic::{set_hook, take_hook};

use tracing::error;

/// From now on, a panic during an evaluation is logged without its message, which may quote a string that the engine was working on. Other
/// panics are reported as before.
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

    use parking_lot::Mutex;
    use tracing::Level;

    use super::*;
    use crate::rego::memory::limited;
    use crate::telemetry::logs;

    /// Collects the log output.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_panic_during_an_evaluation_is_logged_without_its_message() {
        log_places_only();
        let log = Log::default();
        let writer = log.clone();
        let subscriber = logs::json(move || writer.clone(), logs::at(Level::INFO));
        let panicked = tracing::subscriber::with_default(subscriber, || {
            limited(|| catch_unwind(AssertUnwindSafe(|| -> () { panic!("hunter2 is no number") })))
        });
        assert!(panicked.is_ok_and(|result| result.is_err()));
        let logged = String::from_utf8(log.0.lock().clone()).unwrap();
        assert!(
            logged.contains("an evaluation of Rego panicked") && logged.contains("panics.rs:"),
            "{logged}"
        );
        assert!(!logged.contains("hunter2"), "{logged}");
    }
}
