//! Telling tasks what is now, where that is another than before.

use tokio::sync::watch;

/// Sends `value` where it is another than before.
pub(crate) fn announce<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let differs = *known != value;
        *known = value;
        differs
    });
}
