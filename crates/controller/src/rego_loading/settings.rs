//! Settings of the loader of Rego policies.

use std::collections::{BTreeMap, BTreeSet};

use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::queries::QueriedPackages;
use policy_sync_rego::secrets;

/// The default of `--data-alias`. Rego policies call ManagedClusters `clusters`, as in OPA's federation examples.
pub const DEFAULT_ALIAS: &str = "clusters=managedclusters.cluster.open-cluster-management.io";

/// Settings of the loader of Rego policies.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces whose ConfigMaps carry Rego policies; never empty.
    pub namespaces: BTreeSet<String>,
    /// Kinds that are always in `data.kubernetes`, under the names that Rego policies use: `deployments.apps`.
    pub replicate: BTreeSet<String>,
    /// Aliases for plurals: `clusters` for `managedclusters.cluster.open-cluster-management.io`.
    pub aliases: BTreeMap<String, String>,
    /// The package queried for each purpose.
    pub packages: QueriedPackages,
    /// The engine that evaluates Rego policies.
    pub evaluator: Evaluator,
    /// The maximum number of objects of all kinds together.
    pub limit: usize,
    /// The memory budget of the objects of all kinds together, in bytes.
    pub bytes: usize,
}

impl Settings {
    /// Whether `--replicate` does not include Secrets.
    #[must_use]
    pub fn withholds_secrets(&self) -> bool {
        secrets::names(&self.aliases).is_disjoint(&self.replicate)
    }
}
