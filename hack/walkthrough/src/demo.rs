//! What the demo runs on.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use kube::Client;

use super::report::Report;
use super::{Engine, Options, Story, placement, sync};
use policy_sync_testenv::webhooks::Webhooks;
use policy_sync_testenv::{Controller, Fleet, FleetOptions, Opa};

/// A hub, two spokes, and the controller. Dropping it stops all of it.
#[derive(Debug)]
pub(super) struct Demo {
    // Goes before the hub that it watches.
    _controller: Controller,
    // What it asks goes after it.
    _opa: Option<Opa>,
    fleet: Fleet,
    program: PathBuf,
    webhooks: Webhooks,
}

impl Demo {
    /// Starts everything.
    pub(super) async fn start(options: &Options, report: &Report) -> Result<Self> {
        let (story, program) = (options.story, &options.controller);
        ensure!(
            program.is_file(),
            "{} is no program: build it, or name one with --controller",
            program.display()
        );
        report.step(match story {
            Story::Sync | Story::Placement => "Start a hub, two spokes and the controller",
            Story::Gates => "Start a hub and the controller",
        });
        let webhooks = Webhooks::with_files("policy-sync")?;
        let opa = match options.engine {
            Engine::Embedded => None,
            Engine::Opa => Some(Opa::start().await?),
        };
        let (fleet, mut arguments) = match story {
            Story::Sync => (FleetOptions::spokes(sync::SPOKES), Vec::new()),
            Story::Placement => (placement::fleet(), placement::arguments(&webhooks)),
            Story::Gates => (FleetOptions::spokes([]), placement::arguments(&webhooks)),
        };
        arguments.extend(opa.iter().map(|opa| format!("--opa-url={}", opa.url())));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let fleet = Fleet::start(fleet).await?;
        report.seen(match story {
            Story::Sync | Story::Placement => "hub and spokes are up, each with an API server of its own",
            Story::Gates => "the hub is up",
        });
        let controller = Controller::start(program, fleet.hub(), &arguments).await?;
        report.seen("policy-sync controller is ready");
        if let Some(opa) = &opa {
            report.seen(&format!("OPA evaluates policies, at {}", opa.url()));
        }
        Ok(Self { _controller: controller, _opa: opa, fleet, program: program.clone(), webhooks })
    }

    /// The program under test.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// `kubectl`, as an administrator of the hub.
    pub(super) fn kubectl(&self) -> Command {
        let hub = self.fleet.hub();
        let mut kubectl = Command::new(&hub.binaries().kubectl);
        kubectl.arg("--kubeconfig").arg(hub.kubeconfig());
        kubectl
    }

    /// Where its webhooks are.
    pub(super) fn webhooks(&self) -> &Webhooks {
        &self.webhooks
    }

    /// A client of the hub.
    pub(super) fn hub(&self) -> Result<Client> {
        self.fleet.hub().client()
    }

    /// A client of the spoke `name`.
    pub(super) fn spoke(&self, name: &str) -> Result<Client> {
        self.fleet.spoke(name)?.client().with_context(|| format!("reaching {name}"))
    }

    /// Prints how to look at what runs, and how to stop it.
    pub(super) fn say_how_to_reach(&self, report: &Report) {
        println!();
        report.say("Everything keeps running. In another terminal, one of:");
        println!("# hub");
        println!("export KUBECONFIG={}", self.fleet.hub().kubeconfig().display());
        for spoke in self.fleet.spokes() {
            println!("# spoke {}", spoke.name());
            println!("export KUBECONFIG={}", spoke.kubeconfig().display());
        }
        println!("# and then, for instance");
        let kubectl = self.fleet.hub().binaries().kubectl.display();
        println!("{kubectl} get gateways,ratelimitpolicies,manifestworks -A");
        println!("# logs are beside the kubeconfigs");
        println!();
        report.say("Ctrl-C here stops and removes all of it.");
    }
}
