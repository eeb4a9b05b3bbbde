//! A real API server with istiod and the Kuadrant operator.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use policy_sync_testenv::apply::{apply, delete};
use policy_sync_testenv::certificates::Authority;
use policy_sync_testenv::fixtures::namespace;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, wait};
use serde_json::{Value, json};

use crate::controllers::{Controllers, Folder, kuadrant};
use crate::shorthand;

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Waits until the time is after this second since the Unix epoch.
pub(crate) async fn until_after(second: u64) -> Result<()> {
    wait::until("the next second begins", LIMIT, || async move {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        ensure!(now > second, "the time is {now}");
        Ok(())
    })
    .await
}

/// The creation time of `object` in seconds since the Unix epoch.
pub(crate) fn second(object: &DynamicObject) -> Result<u64> {
    let created =
        object.metadata.creation_timestamp.as_ref().context("the object has no creationTimestamp")?;
    u64::try_from(created.0.as_second()).context("the creation time is before 1970")
}

/// A control plane with some of the controllers.
pub(crate) struct Cluster {
    // Fields are dropped in this order, so that clients stop before the API server.
    controllers: Controllers,
    /// A certificate and its key, in base64.
    certificate: (String, String),
    plane: ControlPlane,
}

impl Cluster {
    /// Starts the controllers `names`; `None` if `POLICY_SYNC_DOWNSTREAM` is not set.
    pub(crate) async fn start(names: &[&'static str]) -> Result<Option<Self>> {
        let Some(folder) = Folder::with(names) else { return Ok(None) };
        let crds = folder.crds()?;
        let plane =
            ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named("downstream") })
                .await?;
        let identity = Authority::new("downstream")?.server("localhost")?;
        let controllers = Controllers::start(&plane, &folder, names).await?;
        let certificate = (STANDARD.encode(identity.certificate), STANDARD.encode(identity.key));
        let cluster = Self { controllers, certificate, plane };
        cluster.apply(&namespace("marker")).await?;
        if names.contains(&"kuadrant-operator") {
            cluster.apply(&kuadrant()).await?;
        }
        Ok(Some(cluster))
    }

    /// The log of a controller.
    pub(crate) fn log(&self, name: &str) -> Result<&Path> {
        self.controllers.log(name)
    }

    pub(crate) fn client(&self) -> Result<Client> {
        self.plane.client()
    }

    pub(crate) async fn apply(&self, object: &Value) -> Result<DynamicObject> {
        apply(&self.client()?, object).await
    }

    /// Applies an object in short form.
    pub(crate) async fn apply_short(&self, short: &Value) -> Result<DynamicObject> {
        self.apply(&self.object(short)).await
    }

    /// The object for the short form `short`, as the API server accepts it.
    fn object(&self, short: &Value) -> Value {
        let mut object = shorthand::object(short);
        let metadata = object["metadata"].as_object_mut().into_iter();
        metadata.for_each(|metadata| drop(metadata.remove("creationTimestamp")));
        match object["kind"].as_str().unwrap_or_default() {
            "TokenRateLimitPolicy" => object["apiVersion"] = "kuadrant.io/v1alpha1".into(),
            "Secret" => {
                object.as_object_mut().into_iter().for_each(|fields| drop(fields.remove("spec")));
                if short["tls"] == true {
                    object["data"] = json!({"tls.crt": self.certificate.0, "tls.key": self.certificate.1});
                }
            }
            _ => {}
        }
        object
    }

    /// Creates the objects of all `worlds` in the order of their field `created`. Objects with a greater value
    /// are created in a later second. Then sets `created` to the actual second of creation, counted from the
    /// first object of the world.
    pub(crate) async fn create(&self, worlds: &mut [Vec<Value>]) -> Result<()> {
        let age = |short: &Value| short["created"].as_u64().unwrap_or_default();
        let last = worlds.iter().flatten().map(age).max().unwrap_or_default();
        let mut seconds: Vec<Vec<u64>> = worlds.iter().map(|world| vec![0; world.len()]).collect();
        for wave in 0..=last {
            for (world, seconds) in worlds.iter().zip(&mut seconds) {
                for (short, second) in world.iter().zip(seconds).filter(|(short, _)| age(short) == wave) {
                    if short.get("GatewayClass").is_none() {
                        *second = self.create_one(short).await?;
                    }
                }
            }
            let latest = seconds.iter().flatten().max().copied().unwrap_or_default();
            until_after(latest).await?;
        }
        for (world, seconds) in worlds.iter_mut().zip(seconds) {
            let first = seconds.iter().filter(|second| **second > 0).min().copied().unwrap_or_default();
            for (short, second) in
                world.iter_mut().zip(seconds).filter(|(short, _)| short.get("created").is_some())
            {
                short["created"] = (second - first).into();
            }
        }
        Ok(())
    }

    async fn create_one(&self, short: &Value) -> Result<u64> {
        second(&self.apply_short(short).await?)
    }

    /// Deletes the objects of `worlds`, except Namespaces.
    pub(crate) async fn delete(&self, worlds: &[Vec<Value>]) -> Result<()> {
        let client = self.client()?;
        let stays = |short: &&Value| short.get("GatewayClass").is_some() || short.get("Namespace").is_some();
        for short in worlds.iter().flatten().filter(|short| !stays(short)) {
            delete(&client, &self.object(short)).await?;
        }
        Ok(())
    }

    /// All Gateway API objects of a kind.
    pub(crate) async fn list(&self, kind: &str) -> Result<Vec<DynamicObject>> {
        let (group, version) = ("gateway.networking.k8s.io".to_owned(), "v1".to_owned());
        let resource = ApiResource {
            api_version: format!("{group}/{version}"),
            group,
            version,
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        };
        let api: Api<DynamicObject> = Api::all_with(self.client()?, &resource);
        Ok(api.list(&ListParams::default()).await?.items)
    }
}
