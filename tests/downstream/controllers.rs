//! Runs istiod, the Kuadrant operator and the operators that Kuadrant needs, as processes beside an API server.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, Result};
use policy_sync_testenv::ControlPlane;
use policy_sync_testenv::apply::apply;
use policy_sync_testenv::crds::Crd;
use policy_sync_testenv::fixtures::namespace;
use policy_sync_testenv::ports::Port;
use policy_sync_testenv::process::Server;
use serde_json::{Value, json};

/// The namespace of the operators.
pub(crate) const OPERATORS: &str = "kuadrant-system";

/// The directory in `POLICY_SYNC_DOWNSTREAM`.
pub(crate) struct Folder(PathBuf);

/// Running controllers. Dropping the value stops the controllers.
pub(crate) struct Controllers {
    servers: HashMap<&'static str, Server>,
    _ports: Vec<Port>,
}

/// The command, arguments and environment of a controller.
#[derive(Default)]
struct Launch {
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
    ports: Vec<Port>,
}

/// The object that makes the Kuadrant operator start its work.
pub(crate) fn kuadrant() -> Value {
    json!({
        "apiVersion": "kuadrant.io/v1beta1", "kind": "Kuadrant",
        "metadata": {"name": "kuadrant", "namespace": OPERATORS}, "spec": {},
    })
}

impl Folder {
    /// The directory in `POLICY_SYNC_DOWNSTREAM`, which must have the programs `names`; `None` if the variable is
    /// not set.
    pub(crate) fn with(names: &[&str]) -> Option<Self> {
        let path = env::var_os("POLICY_SYNC_DOWNSTREAM").filter(|path| !path.is_empty());
        if path.is_none() {
            eprintln!("NOT RUN: needs POLICY_SYNC_DOWNSTREAM, a folder with {} and crds/", names.join(", "));
        }
        path.map(|path| Self(path.into()))
    }

    /// Whether the directory has all the programs `names`.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        let missing: Vec<&str> = names.iter().filter(|name| !self.0.join(name).is_file()).copied().collect();
        if !missing.is_empty() {
            eprintln!("NOT RUN: {} has no {}", self.0.display(), missing.join(", "));
        }
        missing.is_empty()
    }

    /// The CustomResourceDefinitions in the YAML files of `crds/`.
    pub(crate) fn crds(&self) -> Result<Vec<Crd>> {
        let (folder, mut crds) = (self.0.join("crds"), Vec::new());
        for file in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
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
}

impl Controllers {
    /// Starts the programs `names` of `folder` for the API server of `plane`.
    pub(crate) async fn start(plane: &ControlPlane, folder: &Folder, names: &[&'static str]) -> Result<Self> {
        let client = plane.client()?;
        for name in ["istio-system", OPERATORS] {
            apply(&client, &namespace(name)).await?;
        }
        // Authorino's operator binds these roles. Authorino itself runs as an administrator here.
        for name in ["authorino-manager-role", "authorino-manager-k8s-auth-role"] {
            let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": []});
            apply(&client, &role).await?;
        }
        let (mut servers, mut all_ports) = (HashMap::new(), Vec::new());
        for name in names {
            let Launch { arguments, environment, ports } = Launch::of(name, plane.kubeconfig())?;
            let environment: Vec<(&str, &str)> =
                environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let program = folder.0.join(name);
            let server = plane.runtime_directory().spawn_with(name, &program, &arguments, &environment)?;
            servers.insert(*name, server);
            all_ports.extend(ports);
        }
        Ok(Self { servers, _ports: all_ports })
    }

    /// The log of a controller.
    pub(crate) fn log(&self, name: &str) -> Result<&Path> {
        Ok(self.servers.get(name).context("the controller was not started")?.log())
    }
}

impl Launch {
    fn of(name: &str, kubeconfig: &Path) -> Result<Self> {
        let kubeconfig = kubeconfig.display().to_string();
        match name {
            "pilot-discovery" => Self::istiod(&kubeconfig),
            "kuadrant-operator" => Ok(Self::operator(
                kubeconfig,
                [
                    ("OPERATOR_NAMESPACE", OPERATORS),
                    ("LOG_LEVEL", "debug"),
                    // The file does not exist, so the operator does not start its server of wasm modules.
                    ("WASM_SERVER_FILE_PATH", "/nonexistent"),
                    ("WITH_EXTENSIONS", "false"),
                ],
            )),
            "authorino-operator" => {
                Ok(Self::operator(kubeconfig, [("RELATED_IMAGE_AUTHORINO", "authorino")]))
            }
            "authorino" => {
                let flags = [
                    "ext-auth-grpc-port",
                    "ext-auth-http-port",
                    "oidc-http-port",
                    "metrics-addr",
                    "health-probe-addr",
                ];
                let flags = flags.map(|flag| format!("--{flag}=0"));
                let arguments = ["server".to_owned()].into_iter().chain(flags).collect();
                Ok(Self { arguments, environment: vec![("KUBECONFIG", kubeconfig)], ..Self::default() })
            }
            _ => Ok(Self::operator(kubeconfig, [])),
        }
    }

    fn istiod(kubeconfig: &str) -> Result<Self> {
        let mut launch = Self::default();
        launch.arguments.extend([
            "discovery".into(),
            "--domain=cluster.local".into(),
            format!("--kubeconfig={kubeconfig}"),
            // A free port of 127.0.0.1 for istiod's debugging pages.
            "--ctrlz_port=0".into(),
        ]);
        for flag in ["httpAddr", "httpsAddr", "grpcAddr", "secureGRPCAddr", "monitoringAddr"] {
            let port = Port::reserve()?;
            launch.arguments.push(format!("--{flag}=127.0.0.1:{}", port.number()));
            launch.ports.push(port);
        }
        let environment = [
            ("PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", "false"),
            ("PILOT_ENABLE_ALPHA_GATEWAY_API", "true"),
            ("ENABLE_CA_SERVER", "false"),
            ("INJECT_ENABLED", "false"),
            ("POD_NAMESPACE", "istio-system"),
            ("POD_NAME", "istiod"),
        ];
        launch.environment.extend(environment.map(|(name, value)| (name, value.to_owned())));
        Ok(launch)
    }

    fn operator<const N: usize>(kubeconfig: String, environment: [(&'static str, &str); N]) -> Self {
        let environment = environment.map(|(name, value)| (name, value.to_owned()));
        let arguments = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
        Self {
            arguments: arguments.map(str::to_owned).into(),
            environment: [("KUBECONFIG", kubeconfig)].into_iter().chain(environment).collect(),
            ports: Vec::new(),
        }
    }
}
