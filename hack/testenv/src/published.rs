//! Where CRDs lie as their projects publish them.

use std::path::PathBuf;

/// The folder of Gateway API's in that of all.
pub(crate) const GATEWAY_API: &str = "gateway-api";

/// The folder, where one is named. An empty name is none.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("POLICY_SYNC_CRDS").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Its folder with Gateway API's CRDs, where it has one: then Go is not needed to get them.
pub(crate) fn gateway_api() -> Option<PathBuf> {
    folder().map(|folder| folder.join(GATEWAY_API)).filter(|folder| folder.is_dir())
}
