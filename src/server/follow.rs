//! Files that are looked at again and again, while the last good ones count.

use std::error::Error;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use policy_sync_api::text::with_causes;

/// Has `look` look so often, until `stop`. What keeps it from taking what it finds, `stays` is told once, until it is something else.
pub(super) async fn follow<E: Error + 'static>(
    every: Duration,
    stop: CancellationToken,
    mut look: impl FnMut() -> Result<(), E>,
    stays: impl Fn(&str),
) {
    let mut fault = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let found = look().map_or_else(|error| with_causes(&error), |()| String::new());
        if !found.is_empty() && found != fault {
            stays(&found);
        }
        fault = found;
    }
}
