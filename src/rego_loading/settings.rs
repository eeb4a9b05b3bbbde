//! How Rego is set up.

use std::collections::{BTreeMap, BTreeSet};

use policy_sync_rego::asked::Packages;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::secrets;

/// What the design's policies call ManagedClusters, as `--data-alias` writes it.
pub const DEFAULT_ALIAS: &str = "clusters=managedclusters.cluster.open-cluster-management.io";

/// How Rego is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespaces whose ConfigMaps carry policies; never empty.
    pub namespaces: BTreeSet<String>,
    /// Kinds that are in `data.kubernetes` whether or not a module names them, as modules name them: `deployments.apps`.
    pub replicate: BTreeSet<String>,
    /// What plurals stand for: `clusters` for `managedclusters.cluster.open-cluster-management.io`.
    pub aliases: BTreeMap<String, String>,
    /// The packages that are asked.
    pub packages: Packages,
    /// Who evaluates.
    pub evaluator: Evaluator,
    /// The maximum number of objects of all kinds together.
    pub limit: usize,
    /// The memory budget of these objects in bytes.
    pub bytes: usize,
}

impl Settings {
    /// Whether `--replicate` lacks Secrets.
    #[must_use]
    pub fn withholds_secrets(&self) -> bool {
        secrets::names(&self.aliases).is_disjoint(&self.replicate)
    }
}
