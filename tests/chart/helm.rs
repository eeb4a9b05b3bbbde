//! Runs Helm as a user does, with its own folders.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, ResourceExt};
use policy_sync_testenv::ControlPlane;
use policy_sync_testenv::binaries::chart_tools;
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/policy-sync");

/// The chart's folder.
pub(crate) fn chart() -> &'static Path {
    Path::new(CHART)
}

/// Only the required values of the chart.
pub(crate) fn required() -> Value {
    json!({ "image": { "repository": "registry.example.com/policy-sync" } })
}

/// Helm, with or without a hub.
pub(crate) struct Helm {
    program: PathBuf,
    home: TempDir,
    kubeconfig: Option<PathBuf>,
}

impl Helm {
    /// Helm without a hub.
    pub(crate) async fn alone() -> Result<Self> {
        Ok(Self { program: chart_tools().await?.helm, home: tempfile::tempdir()?, kubeconfig: None })
    }

    /// Helm for `hub`, as an administrator.
    pub(crate) async fn of(hub: &ControlPlane) -> Result<Self> {
        Ok(Self { kubeconfig: Some(hub.kubeconfig().to_owned()), ..Self::alone().await? })
    }

    /// Runs `helm`, with `values` if given, and returns its output.
    ///
    /// # Errors
    ///
    /// If `helm` fails. The error contains its output.
    pub(crate) fn run(&self, arguments: &[&str], values: Option<&Value>) -> Result<String> {
        let output = self.output(arguments, values)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {}: {stderr}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs `helm`, which must fail, and returns its error output.
    ///
    /// # Errors
    ///
    /// If `helm` succeeds.
    pub(crate) fn refused(&self, arguments: &[&str], values: Option<&Value>) -> Result<String> {
        let output = self.output(arguments, values)?;
        if output.status.success() {
            bail!("helm {} succeeded: {}", arguments.join(" "), String::from_utf8_lossy(&output.stdout));
        }
        Ok(String::from_utf8(output.stderr)?)
    }

    fn output(&self, arguments: &[&str], values: Option<&Value>) -> Result<Output> {
        let mut command = Command::new(&self.program);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.home.path().join(folder));
        }
        let nowhere = self.home.path().join("no-kubeconfig");
        command
            .env("KUBECONFIG", self.kubeconfig.as_deref().unwrap_or(&nowhere))
            .env_remove("HELM_NAMESPACE");
        command.args(arguments);
        let mut file = NamedTempFile::with_suffix_in(".json", self.home.path())?;
        if let Some(values) = values {
            file.write_all(values.to_string().as_bytes())?;
            command.arg("--values").arg(file.path());
        }
        command.output().context("running helm")
    }

    /// Renders the chart with `values` for a release.
    pub(crate) fn template(&self, release: Release<'_>, values: &Value) -> Result<Rendered> {
        let text = self.run(&release.arguments("template"), Some(values))?;
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)?;
        Ok(Rendered { text, objects: objects.into_iter().filter(|object| !object.is_null()).collect() })
    }

    /// Installs the chart with `values`, and returns its notes.
    pub(crate) fn install(&self, release: Release<'_>, values: &Value) -> Result<String> {
        let create = ["--create-namespace"];
        self.run(&[&release.arguments("install")[..], &create].concat(), Some(values))
    }

    /// Upgrades a release to the chart with `values`.
    pub(crate) fn upgrade(&self, release: Release<'_>, values: &Value) -> Result<String> {
        self.run(&release.arguments("upgrade"), Some(values))
    }
}

/// A release: its name and its namespace.
#[derive(Clone, Copy)]
pub(crate) struct Release<'r>(pub(crate) &'r str, pub(crate) &'r str);

impl<'r> Release<'r> {
    /// The arguments with which `helm` runs `command` for this release of the chart.
    pub(crate) fn arguments(self, command: &'r str) -> [&'r str; 5] {
        [command, self.0, CHART, "--namespace", self.1]
    }
}

/// The rendered chart.
pub(crate) struct Rendered {
    /// The YAML of all objects.
    pub(crate) text: String,
    /// The objects in `text`.
    pub(crate) objects: Vec<Value>,
}

impl Rendered {
    /// The Deployment and its ServiceAccount as stored on `hub`, where a kubelet would read them.
    pub(crate) async fn live(hub: &ControlPlane, deployment: &Deployment) -> Result<Self> {
        let namespace = deployment.namespace().context("no namespace")?;
        let pod = deployment.spec.template.spec.as_ref();
        let account =
            pod.and_then(|pod| pod.service_account_name.as_ref()).context("no serviceAccountName")?;
        let accounts: Api<ServiceAccount> = Api::namespaced(hub.client()?, &namespace);
        let account = json!({ "kind": "ServiceAccount", "metadata": accounts.get(account).await?.metadata });
        let mut deployment = serde_json::to_value(deployment)?;
        deployment["kind"] = "Deployment".into();
        Ok(Self { text: String::new(), objects: vec![deployment, account] })
    }

    /// All rendered objects of a kind.
    pub(crate) fn all(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["kind"] == kind)
    }

    /// The only rendered object of a kind.
    pub(crate) fn one(&self, kind: &'static str) -> Result<&Value> {
        let mut found = self.all(kind);
        let one = found.next().with_context(|| format!("no {kind}"))?;
        ensure!(found.next().is_none(), "several objects of kind {kind}");
        Ok(one)
    }

    /// The controller's arguments, without its command.
    pub(crate) fn arguments(&self) -> Result<Vec<String>> {
        let container = &self.one("Deployment")?["spec"]["template"]["spec"]["containers"][0];
        let mut arguments: Vec<String> = serde_json::from_value(container["args"].clone())?;
        ensure!(arguments.remove(0) == "controller", "the pod runs another command");
        Ok(arguments)
    }
}
