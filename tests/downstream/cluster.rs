//! A real API server with istiod and the Kuadrant operator.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use policy_sync_testenv::apply::{apply, delete};
use policy_sync_testenv::certificates::Authority;
use policy_sync_testenv::crds::Crd;
use policy_sync_testenv::ports::Port;
use policy_sync_testenv::process::Server;
use policy_sync_testenv::{ControlPlane, ControlPlaneOptions, wait};
use serde_json::{Value, json};

use crate::shorthand;

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The namespace of the operator.
const OPERATOR: &str = "kuadrant-system";

/// A control plane with some of the controllers.
pub(crate) struct Cluster {
    plane: ControlPlane,
    /// A certificate and its key, in base64.
    certificate: (String, String),
    servers: HashMap<&'static str, Server>,
    ports: Vec<Port>,
}

/// The folder that `POLICY_SYNC_DOWNSTREAM` names.
fn folder() -> Option<PathBuf> {
    env::var_os("POLICY_SYNC_DOWNSTREAM").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The CustomResourceDefinitions in the YAML files of `folder`.
fn crds(folder: &Path) -> Result<Vec<Crd>> {
    let mut crds = Vec::new();
    for file in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let text = fs::read_to_string(file?.path())?;
        for document in text.split("\n---") {
            let value: Value = serde_saphyr::from_str(document).context("reading a CRD")?;
            if !value.is_null() {
                crds.push(Crd::new(value)?);
            }
        }
    }
    Ok(crds)
}

impl Cluster {
    /// Starts the controllers `names`; `None` where `POLICY_SYNC_DOWNSTREAM` is not set.
    pub(crate) async fn start(names: &[&'static str]) -> Result<Option<Self>> {
        let Some(folder) = folder() else {
            eprintln!("NOT RUN: needs POLICY_SYNC_DOWNSTREAM, a folder with {} and crds/", names.join(", "));
            return Ok(None);
        };
        let crds = crds(&folder.join("crds"))?;
        let plane =
            ControlPlane::start(ControlPlaneOptions { crds, ..ControlPlaneOptions::named("downstream") });
        let identity = Authority::new("downstream")?.server("localhost")?;
        let mut cluster = Self {
            plane: plane.await?,
            certificate: (STANDARD.encode(identity.certificate), STANDARD.encode(identity.key)),
            servers: HashMap::new(),
            ports: Vec::new(),
        };
        for namespace in ["istio-system", OPERATOR, "marker"] {
            cluster
                .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
                .await?;
        }
        for name in names {
            cluster.spawn(name, &folder.join(name))?;
        }
        if names.contains(&"kuadrant-operator") {
            let kuadrant = json!({"apiVersion": "kuadrant.io/v1beta1", "kind": "Kuadrant",
                "metadata": {"name": "kuadrant", "namespace": OPERATOR}, "spec": {}});
            cluster.apply(&kuadrant).await?;
        }
        Ok(Some(cluster))
    }

    fn spawn(&mut self, name: &'static str, program: &Path) -> Result<()> {
        let kubeconfig = self.plane.kubeconfig().display().to_string();
        let (arguments, environment): (Vec<String>, Vec<(&str, &str)>) = match name {
            "pilot-discovery" => {
                let mut arguments = vec![
                    "discovery".into(),
                    "--domain=cluster.local".into(),
                    format!("--kubeconfig={kubeconfig}"),
                ];
                for flag in ["httpAddr", "httpsAddr", "grpcAddr", "secureGRPCAddr", "monitoringAddr"] {
                    let port = Port::reserve()?;
                    arguments.push(format!("--{flag}=127.0.0.1:{}", port.number()));
                    self.ports.push(port);
                }
                // A free port of 127.0.0.1 for its debugging pages.
                arguments.push("--ctrlz_port=0".into());
                let environment = vec![
                    ("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", "false"),
                    ("PILOT_ENABLE_ALPHA_GATEWAY_API", "true"),
                    ("ENABLE_CA_SERVER", "false"),
                    ("INJECT_ENABLED", "false"),
                    ("POD_NAMESPACE", "istio-system"),
                    ("POD_NAME", "istiod"),
                ];
                (arguments, environment)
            }
            _ => {
                let environment = vec![
                    ("KUBECONFIG", kubeconfig.as_str()),
                    ("OPERATOR_NAMESPACE", OPERATOR),
                    ("LOG_LEVEL", "debug"),
                    // Without this file its server of wasm modules does not start.
                    ("WASM_SERVER_FILE_PATH", "/nonexistent"),
                    ("WITH_EXTENSIONS", "false"),
                ];
                (vec!["--metrics-bind-address=0".into(), "--health-probe-bind-address=0".into()], environment)
            }
        };
        let server = self.plane.workplace().spawn_with(name, program, &arguments, &environment)?;
        self.servers.insert(name, server);
        Ok(())
    }

    /// The log of a controller.
    pub(crate) fn log(&self, name: &str) -> Result<&Path> {
        Ok(self.servers.get(name).context("the controller was not started")?.log())
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

    /// The object of the short form, as the API server takes it.
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

    /// Creates the objects of all `worlds`, those with a greater `created` in a later second. It becomes the second in which the
    /// object was created, counted from the first of its world.
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
            wait::until("the next second", LIMIT, || async move {
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
                ensure!(now > latest, "it is {now}");
                Ok(())
            })
            .await?;
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
        let created = self.apply_short(short).await?.metadata.creation_timestamp;
        let created = created.context("an object without creationTimestamp")?;
        u64::try_from(created.0.as_second()).context("a time before 1970")
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
