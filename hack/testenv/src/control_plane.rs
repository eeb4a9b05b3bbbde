//! The control plane of one cluster: etcd, kube-apiserver and kube-controller-manager.
//!
//! There are no nodes and no pods. The controller manager runs only the controllers that the tests depend on:
//! deletion of namespaces, garbage collection, and aggregation of ClusterRoles.

mod servers;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::Client;

use crate::audit::Log;
use crate::binaries::{self, Binaries};
use crate::certificates::{Authority, User};
use crate::crds::Crd;
use crate::kubeconfig::Access;
use crate::ports::Port;
use crate::process::{RuntimeDirectory, Server};

/// Time limit for the start of an API server. Alone on a machine, an API server needs a few seconds.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Options of a control plane.
#[derive(Debug, Default)]
pub struct ControlPlaneOptions {
    /// The name of the control plane in kubeconfigs, directories and errors.
    pub name: String,
    /// The CRDs. They are installed before the controller manager starts, because its garbage collector discovers new
    /// kinds only every 30 s.
    pub crds: Vec<Crd>,
    /// The directory for all files, which is kept. By default, a temporary directory.
    pub directory: Option<PathBuf>,
}

impl ControlPlaneOptions {
    /// Options without CRDs and with a temporary directory.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A running control plane. Dropping it stops its servers and removes its temporary directory.
#[derive(Debug)]
pub struct ControlPlane {
    name: String,
    admin: kube::Config,
    kubeconfig: PathBuf,
    authority: Authority,
    servers: Mutex<HashMap<&'static str, Server>>,
    binaries: Binaries,
    api_port: Port,
    etcd_port: Port,
    runtime_directory: RuntimeDirectory,
    audit: Log,
    authorization: Mutex<Option<PathBuf>>,
}

impl ControlPlane {
    /// Builds missing programs, starts the servers, and waits until the API server is ready and serves the CRDs.
    pub async fn start(options: ControlPlaneOptions) -> Result<Self> {
        install_tls_provider();
        let name = options.name.clone();
        Self::start_unnamed(options).await.with_context(|| format!("starting the control plane {name}"))
    }

    async fn start_unnamed(options: ControlPlaneOptions) -> Result<Self> {
        let binaries = binaries::ensure().await?;
        let runtime_directory = match &options.directory {
            Some(directory) => RuntimeDirectory::lasting(directory)?,
            None => RuntimeDirectory::temporary(&options.name)?,
        };
        let authority = Authority::new(&format!("{} authority", options.name))?;
        let (api_port, etcd_port) = (Port::reserve()?, Port::reserve()?);
        servers::write_certificates(&authority, runtime_directory.path())?;

        let kubeconfig = runtime_directory.path().join("admin.kubeconfig");
        let admin = User::admin();
        let access = Access {
            cluster: options.name.clone(),
            user: admin.name.clone(),
            server: url(&api_port),
            authority: authority.certificate(),
            identity: authority.user(&admin)?,
        };
        access.write(&kubeconfig)?;
        let admin = access.config().await?;

        let plane = Self {
            name: options.name,
            admin,
            kubeconfig,
            authority,
            servers: Mutex::default(),
            binaries,
            api_port,
            etcd_port,
            runtime_directory,
            audit: Log::default(),
            authorization: Mutex::default(),
        };
        plane.start_server(servers::ETCD)?;
        plane.start_api_server().await?;
        crate::crds::install(&plane.client()?, &options.crds).await?;
        plane.start_server(servers::CONTROLLER_MANAGER)?;
        Ok(plane)
    }

    /// The name from the options of the control plane.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the control plane's files: kubeconfigs, logs, data.
    pub fn directory(&self) -> &Path {
        self.runtime_directory.path()
    }

    pub(crate) fn audit(&self) -> &Log {
        &self.audit
    }

    /// The runtime directory, which starts further programs. These programs end with this control plane.
    pub fn runtime_directory(&self) -> &RuntimeDirectory {
        &self.runtime_directory
    }

    /// The API server's URL.
    pub fn url(&self) -> String {
        url(&self.api_port)
    }

    /// The programs of the control plane, and `kubectl`.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// A new administrator client. It is bound to the current runtime, so each test needs a separate client.
    pub fn client(&self) -> Result<Client> {
        Client::try_from(self.admin.clone()).with_context(|| format!("creating a client for {}", self.name))
    }

    /// The configuration of an administrator client, for use on another runtime.
    pub fn client_config(&self) -> kube::Config {
        self.admin.clone()
    }

    /// Path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Writes a kubeconfig for `user` with a new certificate.
    pub fn kubeconfig_for(&self, user: &User) -> Result<PathBuf> {
        let slug: String =
            user.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = self.runtime_directory.path().join(format!("{slug}.kubeconfig"));
        self.access(user)?.write(&path)?;
        Ok(path)
    }

    /// A new client for `user`, bound to the current runtime.
    pub async fn client_for(&self, user: &User) -> Result<Client> {
        let config = self.access(user)?.config().await?;
        Client::try_from(config)
            .with_context(|| format!("creating a client for {} as {}", self.name, user.name))
    }

    /// Process ids of the running servers.
    pub fn pids(&self) -> Vec<u32> {
        self.servers().values().map(Server::pid).collect()
    }

    /// Kills the API server, as a crash would. Clients cannot connect until the API server is started again.
    pub fn stop_api_server(&self) {
        self.servers().remove(servers::API_SERVER);
    }

    /// Starts the API server with its previous address and data, and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        self.start_server(servers::API_SERVER)?;
        let client = self.client()?;
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            self.check(&[servers::ETCD, servers::API_SERVER])?;
            let request =
                http::Request::get("/readyz").body(Vec::new()).context("building the readiness request")?;
            if let Ok(Ok(_)) =
                tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await
            {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(self.failure(servers::API_SERVER, &format!("is not ready after {READY_WITHIN:?}")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Restarts the API server with an AuthorizationConfiguration instead of RBAC.
    pub async fn authorize_by(&self, configuration: &Path) -> Result<()> {
        self.authorize(Some(configuration.to_owned())).await
    }

    /// Restarts the API server with RBAC only.
    pub async fn authorize_by_roles(&self) -> Result<()> {
        self.authorize(None).await
    }

    async fn authorize(&self, configuration: Option<PathBuf>) -> Result<()> {
        *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = configuration;
        self.stop_api_server();
        self.start_api_server().await
    }

    fn authorization(&self) -> Option<PathBuf> {
        self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Kills the API server and etcd, calls `change` with etcd's data directory, and starts both with their
    /// previous addresses.
    pub async fn with_etcd_stopped(&self, change: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.stop_api_server();
        self.servers().remove(servers::ETCD);
        change(&self.runtime_directory.path().join(servers::ETCD_DATA))?;
        self.start_server(servers::ETCD)?;
        self.start_api_server().await
    }

    fn access(&self, user: &User) -> Result<Access> {
        Ok(Access {
            cluster: self.name.clone(),
            user: user.name.clone(),
            server: self.url(),
            authority: self.authority.certificate(),
            identity: self.authority.user(user)?,
        })
    }

    fn start_server(&self, name: &'static str) -> Result<()> {
        let (program, arguments) = servers::command(name, self)?;
        let server = self.runtime_directory.spawn(name, program, &arguments)?;
        self.servers().insert(name, server);
        Ok(())
    }

    fn check(&self, names: &[&'static str]) -> Result<()> {
        let mut servers = self.servers();
        names.iter().filter_map(|name| servers.get_mut(name).map(Server::check)).collect()
    }

    fn failure(&self, name: &'static str, what: &str) -> anyhow::Error {
        match self.servers().get(name) {
            Some(server) => server.failure(what),
            None => anyhow::anyhow!("{name} {what}"),
        }
    }

    fn servers(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, Server>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn url(port: &Port) -> String {
    format!("https://127.0.0.1:{}", port.number())
}

/// Installs the process-wide crypto provider that TLS clients need.
pub fn install_tls_provider() {
    // The call fails if a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
