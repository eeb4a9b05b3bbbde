//! A hostile spoke and a hostile tenant of a server in memory, with the rights that such have.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::{DeleteParams, PostParams};
use kube::core::Request;
use policy_sync::api::work::GROUP;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Faultless, MemoryServer};
use crate::apply::{api_for, apply, apply_with_status};
use crate::hostile::{Deed, Hostile};

/// A spoke that writes whatever it may, and a tenant that does.
pub struct Attackers {
    server: MemoryServer,
    hostile: Hostile,
    spoke: String,
    tenant: String,
    clusters: Vec<String>,
}

impl Attackers {
    /// The spoke `spoke` and the tenant `tenant` of `server`, whose namespaces are there. The tenant may place what it has
    /// on `clusters`.
    #[must_use]
    pub fn new(server: &MemoryServer, seed: u64, spoke: &str, tenant: &str, clusters: &[&str]) -> Self {
        Self {
            server: server.clone(),
            hostile: Hostile::new(seed),
            spoke: spoke.to_owned(),
            tenant: tenant.to_owned(),
            clusters: clusters.iter().map(|&cluster| cluster.to_owned()).collect(),
        }
    }

    /// Has one of them do something each `every`, in a task of its own, until `stop`; returns them then.
    ///
    /// # Errors
    ///
    /// Of the task: where the server fails.
    pub fn go_on(mut self, every: Duration, stop: CancellationToken) -> JoinHandle<Result<Self>> {
        tokio::spawn(async move {
            while stop.run_until_cancelled(sleep(every)).await.is_some() {
                self.act().await?;
            }
            Ok(self)
        })
    }

    /// One of them does something.
    ///
    /// # Errors
    ///
    /// Where the server fails; that it refuses something is no error.
    async fn act(&mut self) -> Result<()> {
        let done = match self.hostile.below(8) {
            0..=3 => self.write_work().await,
            4 => self.write_cluster().await,
            _ => self.write_object().await,
        };
        unless_refused(done)
    }

    async fn write_work(&mut self) -> Result<()> {
        let mut works = self.server.objects_of(GROUP, "manifestworks");
        works.retain(|work| work["metadata"]["namespace"] == *self.spoke);
        if works.is_empty() {
            return Ok(());
        }
        let index = self.hostile.below(works.len());
        let mut work = works.swap_remove(index).as_ref().clone();
        let subresource = self.hostile.below(2).checked_sub(1).map(|_| "status");
        match subresource {
            Some(_) => self.hostile.answer(&mut work),
            None => self.hostile.work(&mut work),
        }
        let path = format!("/apis/{GROUP}/v1/namespaces/{}/manifestworks", self.spoke);
        self.replace("agent", Request::new(path), subresource, &work).await
    }

    async fn write_cluster(&mut self) -> Result<()> {
        let group = "cluster.open-cluster-management.io";
        let clusters = self.server.objects_of(group, "managedclusters");
        let Some(found) = clusters.iter().find(|found| found["metadata"]["name"] == *self.spoke) else {
            return Ok(());
        };
        let mut cluster = found.as_ref().clone();
        self.hostile.cluster(&mut cluster);
        let in_status = cluster["status"] != found["status"];
        let path = format!("/apis/{group}/v1/managedclusters");
        self.replace("agent", Request::new(path), in_status.then_some("status"), &cluster).await
    }

    async fn write_object(&mut self) -> Result<()> {
        let clusters: Vec<&str> = self.clusters.iter().map(String::as_str).collect();
        let client = self.client("tenant");
        match self.hostile.deed(&self.tenant, &clusters) {
            Deed::Delete(object) => delete(&client, &object).await,
            Deed::Write(object) if object["status"].is_null() => apply(&client, &object).await.map(drop),
            Deed::Write(object) => apply_with_status(&client, &object).await.map(drop),
        }
    }

    /// The tenant deletes all that it has.
    ///
    /// # Errors
    ///
    /// Where the server fails.
    pub async fn leave(&self) -> Result<()> {
        let client = self.client("tenant");
        for (_, object) in self.server.objects() {
            if object["metadata"]["namespace"] == *self.tenant && object["kind"] != "Event" {
                unless_refused(delete(&client, &object).await)?;
            }
        }
        Ok(())
    }

    async fn replace(
        &self,
        user: &str,
        requests: Request,
        subresource: Option<&str>,
        object: &Value,
    ) -> Result<()> {
        let (name, body) =
            (object["metadata"]["name"].as_str().unwrap_or_default(), object.to_string().into());
        let params = PostParams::default();
        let request = match subresource {
            Some(subresource) => requests.replace_subresource(subresource, name, &params, body),
            None => requests.replace(name, &params, body),
        };
        let request = request.with_context(|| format!("making a request for {name}"))?;
        self.client(user).request::<Value>(request).await.map(drop).context("writing as a spoke")
    }

    fn client(&self, user: &str) -> Client {
        self.server.client_of(user, Faultless)
    }
}

async fn delete(client: &Client, object: &Value) -> Result<()> {
    let (api, name) = api_for(client, object).await?;
    api.delete(&name, &DeleteParams::default()).await.map(drop).with_context(|| format!("deleting {name}"))
}

fn unless_refused(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.downcast_ref::<kube::Error>().is_some_and(is_refusal) => Ok(()),
        other => other,
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code))
}
