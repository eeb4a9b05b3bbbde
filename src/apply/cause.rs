//! Reads the cause of a batch of deletes from the server, and compares it with what the mirror decided from.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use kube::api::{GetParams, ListParams};

use super::ApplyError;
use super::requests::{Requests, of_kind};
use crate::api::cluster::{GROUP, PLACEMENT_LABEL};
use crate::api::names::GroupVersionResource;
use crate::plan::cause::Read;

/// How many reads go out at once.
const CONCURRENT: usize = 8;

/// Fails where the server shows something else than the mirror did.
pub(super) async fn check(requests: &Requests, reads: BTreeSet<Read>) -> Result<(), ApplyError> {
    futures::stream::iter(reads)
        .map(Ok)
        .try_for_each_concurrent(CONCURRENT, |read| async move {
            let (object, same) = match &read {
                Read::Object(gvr, key, expected) => {
                    let request = of_kind(gvr, &key.namespace).get(&key.name, &GetParams::default());
                    let found = match requests.write(&gvr.kind.resource, request).await {
                        Ok(metadata) => Some(metadata.version()),
                        Err(error) if error.code() == 404 => None,
                        Err(source) => return Err(failed(format!("{} {key}", gvr.kind), source)),
                    };
                    (format!("{} {key}", gvr.kind), found == *expected)
                }
                Read::Decisions(placement, expected) => {
                    let gvr = GroupVersionResource::new(GROUP, "v1beta1", "placementdecisions");
                    let labels = format!("{PLACEMENT_LABEL}={}", placement.name);
                    let request =
                        of_kind(&gvr, &placement.namespace).list(&ListParams::default().labels(&labels));
                    let object = format!("the decisions of Placement {placement}");
                    let listed = requests.list(&gvr.kind.resource, request).await;
                    let listed = listed.map_err(|source| failed(object.clone(), source))?;
                    let found: BTreeMap<String, u64> = listed
                        .into_iter()
                        .map(|metadata| (metadata.name.clone(), metadata.version()))
                        .collect();
                    (object, found == *expected)
                }
            };
            if same { Ok(()) } else { Err(ApplyError::CauseChanged(object)) }
        })
        .await
}

fn failed(object: String, source: super::requests::RequestError) -> ApplyError {
    ApplyError::Request { verb: "get", object, source }
}
