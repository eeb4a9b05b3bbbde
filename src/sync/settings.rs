//! How this controller is set up.

/// How this controller is set up, as far as plans depend on it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Prefix of the names of hub namespaces on the spokes; never empty.
    pub downstream_namespace_prefix: String,
    /// Namespaces of the spokes that never receive copies; `*` matches any text.
    pub reserved_namespaces: Vec<String>,
}

/// The namespaces of the spokes that are never written to where nobody says otherwise, joined by commas: those of
/// Kubernetes, Open Cluster Management and the usual gateways, among them those of Kuadrant, which begin as ours do.
pub const RESERVED_NAMESPACES: &str = "kuadrant-system,kuadrant-operator,kuadrant-operator-system,istio-system,default,\
                                       kube-*,open-cluster-management*";

impl Default for Settings {
    fn default() -> Self {
        Self {
            downstream_namespace_prefix: "kuadrant-".into(),
            reserved_namespaces: RESERVED_NAMESPACES.split(',').map(str::to_owned).collect(),
        }
    }
}
