//! Up to which version of the hub something is known.

use super::status_key::StatusKey;

/// Up to which version each source has been seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Versions {
    pub(super) gateways: u64,
    /// In the order of `RouteKind::ALL`.
    pub(super) routes: [u64; 5],
}

impl Versions {
    /// All seen up to `version`.
    #[cfg(test)]
    pub(super) fn at(version: u64) -> Self {
        Self { gateways: version, routes: [version; 5] }
    }

    /// That of the source of `key`.
    pub(super) fn of(&self, key: &StatusKey) -> u64 {
        match key {
            StatusKey::Gateway(_) => self.gateways,
            StatusKey::Route(kind, _) => self.routes[*kind as usize],
        }
    }
}
