//! A namespace for Rego policies, and a controller that loads them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Api, DeleteParams, ListParams};
use kube::{Client, ResourceExt};
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::{ControlPlane, Controller, Fleet, FleetOptions, fixtures, wait};
use serde_json::{Value, json};

/// The program under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_policy-sync");
/// The annotation with the status of a ConfigMap's modules.
const STATUS: &str = "openpolicyagent.org/kube-mgmt-status";
/// The timeout of each wait, for a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A namespace for Rego policies on a hub.
pub(crate) struct World {
    hub: Hub,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// The hub of a namespace.
enum Hub {
    Shared(&'static ControlPlane),
    Own(Box<Fleet>),
}

impl Hub {
    fn plane(&self) -> &ControlPlane {
        match self {
            Self::Shared(plane) => plane,
            Self::Own(fleet) => fleet.hub(),
        }
    }
}

/// A module that denies objects with the name `what`.
pub(crate) fn denies(what: &str) -> String {
    format!("package admission\ndeny[{{\"id\": \"{what}\"}}] {{ input.request.name == \"{what}\" }}\n")
}

impl World {
    /// A namespace on the hub that all tests share.
    pub(crate) async fn new(namespace: &str) -> Result<Self> {
        Self::on(Hub::Shared(Fleet::shared_hub().await?.hub()), namespace).await
    }

    /// A namespace on a hub of its own, for tests with webhooks that would review the writes of other tests.
    pub(crate) async fn alone(namespace: &str) -> Result<Self> {
        Self::on(Hub::Own(Box::new(Fleet::start(FleetOptions::spokes([])).await?)), namespace).await
    }

    async fn on(hub: Hub, namespace: &str) -> Result<Self> {
        let client = hub.plane().client()?;
        apply(&client, &fixtures::namespace(namespace)).await?;
        Ok(Self { hub, client, namespace: namespace.to_owned() })
    }

    pub(crate) fn hub(&self) -> &ControlPlane {
        self.hub.plane()
    }

    /// The arguments of a controller that loads modules from the namespace.
    pub(crate) fn arguments(&self, more: &[&str]) -> Vec<String> {
        let mut arguments = vec![
            format!("--controller-name=example.com/{}", self.namespace),
            format!("--rego-namespace={}", self.namespace),
        ];
        if !more.iter().any(|argument| argument.starts_with("--webhook-bind-address")) {
            arguments.push("--webhook-bind-address=0".to_owned());
        }
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        arguments
    }

    pub(crate) async fn controller(&self, more: &[&str]) -> Result<Controller> {
        let arguments = self.arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Controller::start(Path::new(BINARY), self.hub(), &arguments).await
    }

    /// Launches a controller with the rights of `user`, without waiting until it is ready.
    pub(crate) fn launch(&self, user: User, more: &[&str]) -> Result<Controller> {
        let arguments = self.arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Controller::launch(Path::new(BINARY), self.hub(), &arguments, Some(user))
    }

    /// Launches a controller with exactly these arguments, without waiting until it is ready.
    pub(crate) fn launch_another(&self, arguments: &[&str]) -> Result<Controller> {
        Controller::launch(Path::new(BINARY), self.hub(), arguments, None)
    }

    pub(crate) fn config_map(&self, name: &str, data: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": name, "namespace": self.namespace},
        })
    }

    /// Applies the ConfigMap `name` with these keys.
    pub(crate) async fn write(&self, name: &str, data: Value) -> Result<()> {
        apply(&self.client, &self.config_map(name, &data)).await.map(drop)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        self.config_maps().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The status of the modules in the ConfigMap `name`; null if there is none.
    pub(crate) async fn status(&self, name: &str) -> Result<Value> {
        let object = self.config_maps().get(name).await?;
        let status = object.annotations().get(STATUS);
        Ok(status.map(|text| serde_json::from_str(text)).transpose()?.unwrap_or_default())
    }

    /// Waits until `is` accepts the status.
    pub(crate) async fn until_status(&self, name: &str, is: impl Fn(&Value) -> bool) -> Result<Value> {
        wait::until(&format!("the status of {name}"), LIMIT, || async {
            let status = self.status(name).await?;
            ensure!(is(&status), "the status is {status}");
            Ok(status)
        })
        .await
    }

    pub(crate) async fn until_ok(&self, name: &str) -> Result<Value> {
        self.until_status(name, |status| status["status"] == "ok").await
    }

    pub(crate) async fn until_refused(&self, name: &str) -> Result<Value> {
        self.until_status(name, |status| status["status"] == "error").await
    }

    /// Waits until a new ConfigMap would have a later creation time than `name`. The API server stores whole
    /// seconds.
    pub(crate) async fn until_newer_than(&self, name: &str) -> Result<()> {
        let created = self.config_maps().get(name).await?.metadata.creation_timestamp;
        wait::until("a later creation time", LIMIT, || async {
            self.write("clock", json!({})).await?;
            let now = self.config_maps().get("clock").await?.metadata.creation_timestamp;
            self.delete("clock").await?;
            ensure!(now > created, "the creation time is the same");
            Ok(())
        })
        .await
    }

    /// The messages of the Events with this reason about `name`.
    pub(crate) async fn events(&self, reason: &str, name: &str) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let events = events.list(&ListParams::default()).await?.items.into_iter();
        let about = events.filter(|event| {
            event.reason.as_deref() == Some(reason) && event.involved_object.name.as_deref() == Some(name)
        });
        Ok(about.filter_map(|event| event.message).collect())
    }
}

/// The number of modules of `controller` in this state.
pub(crate) async fn modules(controller: &Controller, state: &str) -> Result<f64> {
    controller.metrics().await?.value("policy_sync_rego_modules", &[("state", state)])
}

/// Waits until this number of modules is loaded, and none is pending.
pub(crate) async fn until_loaded(controller: &Controller, count: usize) -> Result<()> {
    wait::until(&format!("{count} modules are loaded"), LIMIT, || async {
        let (loaded, pending) = (modules(controller, "loaded").await?, modules(controller, "pending").await?);
        ensure!((loaded, pending) == (count as f64, 0.0), "{loaded} are loaded, {pending} are pending");
        Ok(())
    })
    .await
}

/// The place of the first fault in a status: key, row and column.
pub(crate) fn place(status: &Value) -> Result<(String, u64, u64)> {
    let location = &status["error"]["errors"][0]["location"];
    let number = |name: &str| location[name].as_u64().with_context(|| format!("no {name} in {status}"));
    Ok((location["file"].as_str().unwrap_or_default().to_owned(), number("row")?, number("col")?))
}
