//! Work that takes long and that nobody hurries for: on a thread of its own, which gives way to all others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io, thread};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::debug;

use policy_sync_api::text::with_causes;

/// How much a thread gives way: as much as there is.
const NICE: i32 = 19;

/// Why work has no end.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// There is no thread for it.
    #[error("no thread can be started")]
    Unstarted(#[from] io::Error),
    /// It panicked.
    #[error("it panicked")]
    Panicked,
}

/// What `work` comes to, on a thread called `name` that is given the processor where no other wants it.
///
/// # Errors
///
/// Where it panics, or there is no thread.
pub async fn aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Ended> {
    let ((tell, told), runtime) = (oneshot::channel(), Handle::current());
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _runtime = runtime.enter();
        give_way();
        // Who asked may have gone.
        let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
    })?;
    told.await.ok().and_then(Result::ok).ok_or(Ended::Panicked)
}

/// The same for work that waits for nothing and nobody. Where time is paused, as in tests, it stands still meanwhile, as it does
/// for all that keeps a thread of the runtime.
///
/// # Errors
///
/// As those of [`aside`].
pub async fn computed_aside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Ended> {
    let (name, runtime) = (name.to_owned(), Handle::current());
    let waiting = spawn_blocking(move || runtime.block_on(aside(&name, work)));
    waiting.await.unwrap_or(Err(Ended::Panicked))
}

/// Has this thread give way to others. Elsewhere than on Linux that would be said of the whole process.
fn give_way() {
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::nice(NICE)
    {
        debug!(error = with_causes(&error), "a thread cannot give way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much the thread that asks gives way, as Linux says.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(16).unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn its_thread_gives_way_and_no_other() {
        let before = niceness();
        assert_eq!(aside("test", niceness).await.unwrap(), NICE);
        assert_eq!(niceness(), before);
        assert_eq!(tokio::task::spawn_blocking(niceness).await.unwrap(), before);
    }

    #[tokio::test]
    async fn a_panic_is_told_and_a_runtime_is_there() {
        let panics = aside("test", || -> () { panic!("no") }).await;
        assert!(matches!(panics, Err(Ended::Panicked)));
        let asks = aside("test", || Handle::current().block_on(async { 7 })).await;
        assert_eq!(asks.unwrap(), 7);
    }
}
