//! The resource versions that a build was made from.

use super::status_key::StatusKey;

/// The highest resource version seen from each source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Versions {
    pub(super) gateways: u64,
    /// In the order of `RouteKind::ALL`.
    pub(super) routes: [u64; 5],
}

impl Versions {
    /// Versions that are `version` for all sources.
    #[cfg(test)]
    pub(super) fn at(version: u64) -> Self {
        Self { gateways: version, routes: [version; 5] }
    }

    /// The version of the source of `key`.
    pub(super) fn of(&self, key: &StatusKey) -> u64 {
        match key {
            StatusKey::Gateway(_) => self.gateways,
            StatusKey::Route(kind, _) => self.routes[*kind as usize],
        }
    }
}
