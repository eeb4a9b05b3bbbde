//! The environment of a demo: a hub, spokes, the controller and optionally OPA.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kube::Client;
use tokio::sync::Mutex;

use super::report::Report;
use super::{Engine, Options, Story};
use policy_sync_testenv::authorization::Authorization;
use policy_sync_testenv::certificates::User;
use policy_sync_testenv::metrics::Metrics;
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{Controller, Fleet, FleetOptions, Opa};

/// The running environment. Dropping it stops all its programs.
#[derive(Debug)]
pub(super) struct Demo {
    // The controller, which stops before the hub that it watches.
    controller: Mutex<Option<Controller>>,
    // OPA, which stops after the controller that queries it.
    _opa: Option<Opa>,
    fleet: Fleet,
    program: PathBuf,
    webhooks: Webhooks,
    authorization: Authorization,
}

impl Demo {
    /// Starts the fleet, and the controller with its arguments for the webhooks.
    pub(super) async fn start(
        options: &Options,
        report: &Report,
        (fleet, arguments): (FleetOptions, fn(&Webhooks) -> Vec<String>),
    ) -> Result<Self> {
        let (story, program) = (options.story, &options.controller);
        ensure!(
            program.is_file(),
            "{} is not a program: build it, or select one with --controller",
            program.display()
        );
        report.step(match story {
            Story::Sync | Story::Placement | Story::Web => "Start a hub, two spokes and the controller",
            Story::Gates => "Start a hub and the controller",
        });
        let webhooks = Webhooks::with_files("policy-sync")?;
        let authorization = Authorization::new(&webhooks)?;
        let opa = match options.engine {
            Engine::Embedded => None,
            Engine::Opa => Some(Opa::start().await?),
        };
        let mut arguments = arguments(&webhooks);
        if story == Story::Gates {
            arguments.extend([authorization.argument(), "--audit-interval=10s".to_owned()]);
        }
        arguments.extend(opa.iter().map(|opa| format!("--opa-url={}", opa.url())));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let fleet = Fleet::start(fleet).await?;
        report.print_result(match story {
            Story::Sync | Story::Placement | Story::Web => {
                "hub and spokes are up, each with its own API server"
            }
            Story::Gates => "the hub is up",
        });
        let controller = Controller::start(program, fleet.hub(), &arguments).await?;
        report.print_result("policy-sync controller is ready");
        if let Some(opa) = &opa {
            report.print_result(&format!("OPA evaluates policies, at {}", opa.url()));
        }
        let (controller, program) = (Mutex::new(Some(controller)), program.clone());
        Ok(Self { controller, _opa: opa, fleet, program, webhooks, authorization })
    }

    /// Configures the hub's API server to authorize requests with the controller.
    pub(super) async fn authorize(&self) -> Result<()> {
        self.fleet.hub().authorize_by(&self.authorization.configuration()).await
    }

    /// Stops the controller.
    pub(super) async fn stop_controller(&self) -> Result<()> {
        let controller = self.controller.lock().await.take();
        controller.context("the controller is already stopped")?.terminate().await.map(drop)
    }

    /// Scrapes the controller's metrics.
    pub(super) async fn metrics(&self) -> Result<Metrics> {
        let controller = self.controller.lock().await;
        controller.as_ref().context("the controller is already stopped")?.metrics().await
    }

    /// Path of the administrator's kubeconfig for the hub.
    pub(super) fn kubeconfig(&self) -> &Path {
        self.fleet.hub().kubeconfig()
    }

    /// Path of `policy-sync`.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// `kubectl` with the rights of an administrator of the hub.
    pub(super) fn kubectl(&self) -> Command {
        self.kubectl_with(self.fleet.hub().kubeconfig())
    }

    /// `kubectl` with the rights of this user of the hub.
    pub(super) fn kubectl_as(&self, user: &User) -> Result<Command> {
        Ok(self.kubectl_with(&self.fleet.hub().kubeconfig_for(user)?))
    }

    fn kubectl_with(&self, kubeconfig: &Path) -> Command {
        let mut kubectl = Command::new(&self.fleet.hub().binaries().kubectl);
        kubectl.arg("--kubeconfig").arg(kubeconfig);
        kubectl
    }

    /// The controller's webhooks.
    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// A client of the hub.
    pub(super) fn hub(&self) -> Result<Client> {
        self.fleet.hub().client()
    }

    /// A client of the spoke `name`.
    pub(super) fn spoke(&self, name: &str) -> Result<Client> {
        self.fleet.spoke(name)?.client().with_context(|| format!("connecting to {name}"))
    }

    /// Prints how to connect to the running servers, and how to stop them.
    pub(super) fn say_how_to_reach(&self, report: &Report) {
        println!();
        report.print("Everything keeps running. In another terminal, one of:");
        println!("# hub");
        println!("export KUBECONFIG={}", self.fleet.hub().kubeconfig().display());
        for spoke in self.fleet.spokes() {
            println!("# spoke {}", spoke.name());
            println!("export KUBECONFIG={}", spoke.kubeconfig().display());
        }
        println!("# then, for example");
        let kubectl = self.fleet.hub().binaries().kubectl.display();
        println!("{kubectl} get gateways,ratelimitpolicies,manifestworks -A");
        println!("# logs are next to the kubeconfigs");
        println!();
        report.print("Ctrl-C here stops and removes everything.");
    }
}
