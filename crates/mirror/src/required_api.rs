//! APIs that a hub must have.

/// A resource that the API of a hub must serve.
#[derive(Clone, Copy, Debug)]
pub struct RequiredApi {
    /// Its API group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Its plural name.
    pub resource: &'static str,
    /// The plural name of a resource of the same group and version that only spokes serve.
    pub spoke_resource: Option<&'static str>,
    /// The kind in the plural, for messages: `GatewayClasses`.
    pub kinds: &'static str,
    /// The project that installs it, for messages.
    pub project: &'static str,
}
