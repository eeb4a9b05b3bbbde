//! What files have, in the place of a hub: read once, and not followed.

use crate::report::query::our_classes;
use crate::report::{Asked, Meant, QueryError, Report, Seen, ServedKind, meant};
use policy_sync_api::names::ClusterName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::Scope;
use policy_sync_sync::OfflineMirror;

/// What is said of a cluster where files have no work at all.
const NO_WORKS: &str = "no ManifestWork is given, so what is on clusters is not known";

/// The objects of files, by what they are.
#[derive(Debug)]
pub struct Given {
    /// What plans are made of.
    pub mirror: OfflineMirror,
    /// Policies and resources of each kind that the classes list.
    pub policies: Vec<(ServedKind, Vec<HubObject>)>,
    /// Gateways.
    pub gateways: Vec<HubObject>,
    /// ManagedClusters.
    pub clusters: Vec<HubObject>,
    /// ManifestWorks.
    pub works: Vec<HubObject>,
    /// What is wrong, a line each.
    pub faults: Vec<String>,
}

impl Given {
    pub(super) fn has_classes(&self) -> bool {
        !our_classes(&self.mirror).is_empty()
    }

    /// The ManagedCluster of this name.
    pub(super) fn cluster(&self, name: &ClusterName) -> Option<&HubObject> {
        self.clusters.iter().find(|object| *object.metadata.name == *name.0)
    }

    /// What [`Report::read`] says of a hub that has these objects: of one kind, or of one cluster.
    pub(super) fn report(
        &self,
        asked: Asked<'_>,
        scope: Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, QueryError> {
        let mut seen = Seen::new(self.mirror.controller().clone(), scope);
        seen.classes = our_classes(&self.mirror);
        if let Some(name) = &cluster {
            if self.works.is_empty() {
                return Err(QueryError::Unread(NO_WORKS.to_owned()));
            }
            // Those of others are told from ours by the row.
            let there = self.works.iter().filter(|object| *object.metadata.namespace == *name.0);
            seen.list(&Seen::copies_source(name), there);
        }
        seen.cluster = cluster;
        let kinds: Vec<ServedKind> = self.policies.iter().map(|(kind, _)| kind.clone()).collect();
        seen.kinds = match asked {
            Asked::Kind(word) => match meant(&kinds, word) {
                Meant::Kind(kind) => vec![kind.clone()],
                Meant::Ambiguous(_) => return Err(QueryError::Kind(format!("{word:?} is ambiguous"))),
                Meant::Nothing => {
                    return Err(QueryError::Kind(format!("{word:?} is no kind that is synced")));
                }
            },
            _ => kinds,
        };
        for (kind, objects) in self.policies.iter().filter(|(kind, _)| seen.kinds.contains(kind)) {
            let source = seen.policies_source(kind);
            seen.list(&source, objects.iter().filter(|object| seen.scope.has(&object.key())));
        }
        if !matches!(asked, Asked::Kind(_)) {
            let source = seen.gateways_source();
            seen.list(&source, self.gateways.iter().filter(|object| seen.scope.has(&object.key())));
            seen.gateways = true;
        }
        Ok(Report { faults: self.faults.clone(), ..Report::new(seen) })
    }
}
