//! A hostile spoke and a hostile tenant of a server in memory. The server does not check rights; attackers write
//! only what real rights would permit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use kube::core::Request;
use policy_sync_api::work::{GROUP, ManifestWork};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::agents::reconcile_work;
use super::{Faultless, MemoryServer};
use crate::apply::{api_for, apply, apply_all, apply_with_status};
use crate::fixtures::{managed_cluster, namespace};
use crate::hostile::{HOSTILE_TENANT, Hostile, Operation, REGION, ROGUE};

/// User of the attackers' requests.
const USER: &str = "attacker";

/// Attackers: the agent of the spoke [`ROGUE`], which sometimes behaves like a normal agent, and the tenant
/// [`HOSTILE_TENANT`].
pub struct Attackers {
    server: MemoryServer,
    hostile: Hostile,
    /// A second source of values, so that new operations do not change the sequence of `hostile`.
    extra_values: Hostile,
    /// Clusters on which the tenant may place objects.
    clusters: Vec<String>,
    /// Number of accepted writes.
    written: usize,
}

/// Running attackers.
pub struct Attack {
    working: JoinHandle<Result<Attackers>>,
    stop: CancellationToken,
}

impl Attackers {
    /// Starts the attackers. After each interval `every`, the attackers perform an operation that depends on `seed`.
    /// The tenant can place objects on `clusters` and on the hostile spoke.
    ///
    /// # Errors
    ///
    /// Returns an error if the namespaces or the ManagedCluster cannot be created.
    pub async fn begin(
        server: &MemoryServer,
        seed: u64,
        every: Duration,
        clusters: &[&str],
    ) -> Result<Attack> {
        let objects = [namespace(ROGUE), managed_cluster(ROGUE, &BTreeMap::new()), namespace(HOSTILE_TENANT)];
        apply_all(&server.client(), &objects).await?;
        let clusters = clusters.iter().chain([&ROGUE]).map(|&cluster| cluster.to_owned()).collect();
        let (hostile, extra_values) = (Hostile::new(seed), Hostile::new(!seed));
        let mut attackers = Self { server: server.clone(), hostile, extra_values, clusters, written: 0 };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let working = tokio::spawn(async move {
            while stopped.run_until_cancelled(sleep(every)).await.is_some() {
                attackers.act().await?;
            }
            Ok(attackers)
        });
        Ok(Attack { working, stop })
    }

    /// Performs one operation.
    async fn act(&mut self) -> Result<()> {
        let done = match self.hostile.below(9) {
            0..=3 => self.write_work().await,
            4 => self.write_cluster(Hostile::cluster).await,
            5 => self.work_honestly().await,
            _ => {
                let clusters: Vec<&str> = self.clusters.iter().map(String::as_str).collect();
                let operation = self.hostile.operation(HOSTILE_TENANT, &clusters);
                self.write_object(operation).await
            }
        };
        self.written += usize::from(done.is_ok());
        unless_rejected(done)?;
        unless_rejected(self.act_additionally().await)
    }

    /// Sometimes flips a label of the spoke, or writes expensive objects as the tenant.
    async fn act_additionally(&mut self) -> Result<()> {
        match self.extra_values.below(20) {
            0 => self.flip_label().await,
            1..=3 => {
                for operation in self.extra_values.operations(HOSTILE_TENANT) {
                    self.write_object(operation).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn works(&self) -> Vec<Arc<Value>> {
        let mut works = self.server.objects_of(GROUP, "manifestworks");
        works.retain(|work| work["metadata"]["namespace"] == *ROGUE);
        works
    }

    async fn work_honestly(&mut self) -> Result<()> {
        let api: Api<ManifestWork> = Api::namespaced(self.client(), ROGUE);
        for work in self.works() {
            let name = work["metadata"]["name"].as_str().unwrap_or_default();
            reconcile_work(&api, name, &work).await.context("reconciling works as a hostile agent")?;
        }
        Ok(())
    }

    async fn write_work(&mut self) -> Result<()> {
        let mut works = self.works();
        if works.is_empty() {
            return Ok(());
        }
        let index = self.hostile.below(works.len());
        let mut work = works.swap_remove(index).as_ref().clone();
        let subresource = self.hostile.below(2).checked_sub(1).map(|_| "status");
        match subresource {
            Some(_) => self.hostile.respond(&mut work),
            None => self.hostile.work(&mut work),
        }
        let path = format!("/apis/{GROUP}/v1/namespaces/{ROGUE}/manifestworks");
        self.replace(Request::new(path), subresource, &work).await
    }

    /// Flips the label [`REGION`] of the spoke's ManagedCluster.
    async fn flip_label(&mut self) -> Result<()> {
        let pause = [0, 100, 1_500][self.extra_values.below(3)];
        for region in self.extra_values.flips() {
            let flip =
                |_: &mut Hostile, cluster: &mut Value| cluster["metadata"]["labels"][REGION] = region.into();
            self.write_cluster(flip).await?;
            sleep(Duration::from_millis(pause)).await;
        }
        Ok(())
    }

    async fn write_cluster(&mut self, change: impl FnOnce(&mut Hostile, &mut Value)) -> Result<()> {
        let group = "cluster.open-cluster-management.io";
        let clusters = self.server.objects_of(group, "managedclusters");
        let Some(found) = clusters.iter().find(|found| found["metadata"]["name"] == *ROGUE) else {
            return Ok(());
        };
        let mut cluster = found.as_ref().clone();
        change(&mut self.hostile, &mut cluster);
        let in_status = cluster["status"] != found["status"];
        let path = format!("/apis/{group}/v1/managedclusters");
        self.replace(Request::new(path), in_status.then_some("status"), &cluster).await
    }

    async fn write_object(&self, operation: Operation) -> Result<()> {
        let client = self.client();
        match operation {
            Operation::Delete(object) => delete(&client, &object).await,
            Operation::Write(object) if object["status"].is_null() => apply(&client, &object).await.map(drop),
            Operation::Write(object) => apply_with_status(&client, &object).await.map(drop),
        }
    }

    /// Deletes all objects of the tenant.
    async fn leave(&self) -> Result<()> {
        let client = self.client();
        for (_, object) in self.server.objects() {
            if object["metadata"]["namespace"] == *HOSTILE_TENANT && object["kind"] != "Event" {
                unless_rejected(delete(&client, &object).await)?;
            }
        }
        Ok(())
    }

    async fn replace(&self, requests: Request, subresource: Option<&str>, object: &Value) -> Result<()> {
        let (name, body) =
            (object["metadata"]["name"].as_str().unwrap_or_default(), object.to_string().into());
        let params = PostParams::default();
        let request = match subresource {
            Some(subresource) => requests.replace_subresource(subresource, name, &params, body),
            None => requests.replace(name, &params, body),
        };
        let request = request.with_context(|| format!("building a request for {name}"))?;
        self.client().request::<Value>(request).await.map(drop).context("writing as a hostile spoke")
    }

    fn client(&self) -> Client {
        self.server.client_of(USER, Faultless)
    }
}

impl Attack {
    /// Stops the attackers and deletes the tenant's objects. Returns the number of accepted writes.
    ///
    /// # Errors
    ///
    /// Returns an error if an attacker failed, except for rejected requests.
    pub async fn end(self) -> Result<usize> {
        self.stop.cancel();
        let attackers = self.working.await.context("the attackers panicked")??;
        attackers.leave().await?;
        Ok(attackers.written)
    }
}

async fn delete(client: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    api.delete(&name, &DeleteParams::default()).await.map(drop).with_context(|| format!("deleting {name}"))
}

fn unless_rejected(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.downcast_ref::<kube::Error>().is_some_and(is_rejection) => Ok(()),
        other => other,
    }
}

fn is_rejection(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code))
}
