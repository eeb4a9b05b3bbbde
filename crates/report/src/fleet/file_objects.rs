//! [`FileObjects`]: objects from files that replace a hub. They are read once.

use crate::query::our_classes;
use crate::{KindMatch, QueryError, Report, ReportMirror, RequestedKinds, ServedKind, match_kind};
use policy_sync_api::names::ClusterName;
use policy_sync_api::object::HubObject;
use policy_sync_mirror::Scope;
use policy_sync_sync::OfflineMirror;

/// The reason why the copies on a cluster are unknown.
const NO_WORKS: &str = "no ManifestWork is given, so the state of the clusters is unknown";

/// The objects that were read from files, by kind.
#[derive(Debug)]
pub struct FileObjects {
    /// The objects that plans are computed from.
    pub mirror: OfflineMirror,
    /// The policies and resources of each kind that the GatewayClasses list.
    pub policies: Vec<(ServedKind, Vec<HubObject>)>,
    /// The Gateways.
    pub gateways: Vec<HubObject>,
    /// The ManagedClusters.
    pub clusters: Vec<HubObject>,
    /// The ManifestWorks.
    pub works: Vec<HubObject>,
    /// Errors in the files, one line each.
    pub faults: Vec<String>,
}

impl FileObjects {
    pub(super) fn has_classes(&self) -> bool {
        !our_classes(&self.mirror).is_empty()
    }

    /// The ManagedCluster of this name.
    pub(super) fn cluster(&self, name: &ClusterName) -> Option<&HubObject> {
        self.clusters.iter().find(|object| *object.metadata.name == *name.0)
    }

    /// The equivalent of [`Report::read`] for files: the objects of one kind, or of one cluster.
    pub(super) fn report(
        &self,
        requested: RequestedKinds<'_>,
        scope: Scope,
        cluster: Option<ClusterName>,
    ) -> Result<Report, QueryError> {
        let mut report_mirror = ReportMirror::new(self.mirror.controller().clone(), scope);
        report_mirror.classes = our_classes(&self.mirror);
        if let Some(name) = &cluster {
            if self.works.is_empty() {
                return Err(QueryError::Unread(NO_WORKS.to_owned()));
            }
            // The row of a work of another controller is empty.
            let in_namespace = self.works.iter().filter(|object| *object.metadata.namespace == *name.0);
            report_mirror.list(&ReportMirror::copies_source(name), in_namespace);
        }
        report_mirror.cluster = cluster;
        let kinds: Vec<ServedKind> = self.policies.iter().map(|(kind, _)| kind.clone()).collect();
        report_mirror.kinds = match requested {
            RequestedKinds::Kind(word) => match match_kind(&kinds, word) {
                KindMatch::Kind(kind) => vec![kind.clone()],
                KindMatch::Ambiguous(_) => return Err(QueryError::Kind(format!("{word:?} is ambiguous"))),
                KindMatch::Nothing => {
                    return Err(QueryError::Kind(format!("{word:?} is not a synced kind")));
                }
            },
            _ => kinds,
        };
        for (kind, objects) in self.policies.iter().filter(|(kind, _)| report_mirror.kinds.contains(kind)) {
            let source = report_mirror.policies_source(kind);
            report_mirror
                .list(&source, objects.iter().filter(|object| report_mirror.scope.has(&object.key())));
        }
        if !matches!(requested, RequestedKinds::Kind(_)) {
            let source = report_mirror.gateways_source();
            report_mirror
                .list(&source, self.gateways.iter().filter(|object| report_mirror.scope.has(&object.key())));
            report_mirror.gateways = true;
        }
        Ok(Report { faults: self.faults.clone(), ..Report::new(report_mirror) })
    }
}
