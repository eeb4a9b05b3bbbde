//! Locates published CRDs with the variable `POLICY_SYNC_CRDS`.

use std::path::PathBuf;

/// Subdirectory of the Gateway API's CRDs.
pub(crate) const GATEWAY_API: &str = "gateway-api";

/// The directory in `POLICY_SYNC_CRDS`, if it is set and not empty.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("POLICY_SYNC_CRDS").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The subdirectory with the Gateway API's CRDs, if it exists. Then Go is not needed to get these CRDs.
pub(crate) fn gateway_api() -> Option<PathBuf> {
    folder().map(|folder| folder.join(GATEWAY_API)).filter(|folder| folder.is_dir())
}
