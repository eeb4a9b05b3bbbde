//! Periodically reads files again, and keeps the last valid contents.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use policy_sync_api::text::with_causes;

/// Calls `reload` at the interval `every` until `stop`. Passes each new error to `on_error` once.
pub(super) async fn follow<E: Error + 'static>(
    every: Duration,
    stop: CancellationToken,
    mut reload: impl FnMut() -> Result<(), E>,
    on_error: impl Fn(&str),
) {
    let mut fault = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let found = reload().map_or_else(|error| with_causes(&error), |()| String::new());
        if !found.is_empty() && found != fault {
            on_error(&found);
        }
        fault = found;
    }
}
