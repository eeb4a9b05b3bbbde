//! Hashes of the content of works. They are computed from the content, never read from an annotation that a spoke
//! could forge.

use serde::Serialize;

use super::Strings;
use policy_sync_api::annotations;
use policy_sync_api::json::{BorrowedJson, Hash};
use policy_sync_api::work::ManifestWorkSpec;

/// The labels of a work that this controller writes.
pub const LABELS: [&str; 3] = [annotations::MANAGED_BY, annotations::CONTROLLER, annotations::WORK_FOR];
/// The annotations of a work that this controller writes.
pub const ANNOTATIONS: [&str; 2] = [annotations::PARENT, annotations::GATEWAYS];

/// Hashes of the fields of a work that plans write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The spec.
    pub spec: Hash,
    /// The labels in [`LABELS`] and annotations in [`ANNOTATIONS`].
    pub metadata: Hash,
}

impl Content {
    /// The content of a work with this spec and metadata.
    #[must_use]
    pub fn new(spec: &ManifestWorkSpec, labels: &Strings, annotations: &Strings) -> Self {
        Self::with(hash_of_spec(spec), labels, annotations)
    }

    /// The content of a work whose spec has the hash `spec`.
    #[must_use]
    pub fn with(spec: Hash, labels: &Strings, annotations: &Strings) -> Self {
        #[derive(Serialize)]
        struct Ours<'a>([Option<&'a String>; 3], [Option<&'a String>; 2]);
        let ours = Ours(LABELS.map(|key| labels.get(key)), ANNOTATIONS.map(|key| annotations.get(key)));
        Self { spec, metadata: Hash::of_value(&ours) }
    }
}

/// The hash that [`Hash::of_value`] would return for `spec`, computed without copying the manifests.
fn hash_of_spec(spec: &ManifestWorkSpec) -> Hash {
    let ManifestWorkSpec { workload, delete_option, manifest_configs } = spec;
    let delete_option = serde_json::to_value(delete_option).unwrap_or_default();
    let configs = serde_json::to_value(manifest_configs).unwrap_or_default();
    let manifests = workload.manifests.iter().map(|manifest| BorrowedJson::Value(&manifest.0)).collect();
    let fields = [
        ("deleteOption", (!delete_option.is_null()).then_some(BorrowedJson::Value(&delete_option))),
        ("manifestConfigs", (!manifest_configs.is_empty()).then_some(BorrowedJson::Value(&configs))),
        ("workload", Some(BorrowedJson::Object(vec![("manifests", BorrowedJson::List(manifests))]))),
    ];
    let fields = fields.into_iter().filter_map(|(key, value)| Some((key, value?)));
    Hash::of_borrowed(&BorrowedJson::Object(fields.collect()))
}
