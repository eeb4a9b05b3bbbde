//! The arguments of leader election, named as in controller-runtime and client-go.

use std::time::Duration;

use clap::{ArgAction, Args};
use kube::Client;

use crate::cli::duration;
use policy_sync_api::names::ControllerName;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::{Elector, ElectorOptions, Leadership};

/// The heading of these options in `--help`.
const HEADING: &str = "Leader election options";

/// The arguments of leader election.
#[derive(Debug, Args)]
pub(super) struct ElectionArguments {
    /// Write only while holding a Lease, so that only one of several replicas writes.
    #[arg(
        long,
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = HEADING
    )]
    leader_elect: bool,
    /// Namespace of the controller, for the Lease and the topology. Default: the namespace of the pod, or of the
    /// kubeconfig's context.
    #[arg(long, value_name = "NAMESPACE", help_heading = HEADING)]
    leader_elect_namespace: Option<String>,
    /// Time since the last renewal after which another replica takes over the Lease, in whole seconds.
    #[arg(
        long,
        default_value = "15s",
        value_parser = lease_duration,
        value_name = "DURATION",
        help_heading = HEADING
    )]
    leader_elect_lease_duration: Duration,
}

/// Parses the duration of a Lease, which has a resolution of one second.
fn lease_duration(text: &str) -> Result<Duration, String> {
    const SECOND: Duration = Duration::from_secs(1);
    let duration = duration::parse(text, SECOND, &(3 * SECOND..=3600 * SECOND))?;
    if duration.subsec_nanos() == 0 { Ok(duration) } else { Err("expected whole seconds".to_owned()) }
}

impl ElectionArguments {
    /// The controller's own namespace, with `namespace` as the default.
    pub(super) fn namespace<'n>(&'n self, namespace: &'n str) -> &'n str {
        self.leader_elect_namespace.as_deref().unwrap_or(namespace)
    }

    /// The leadership of this process, and the elector that decides it. Without leader election, this process
    /// always leads.
    pub(super) fn leadership(
        &self,
        client: &Client,
        controller: &ControllerName,
        namespace: String,
        clock: Clock,
    ) -> (Option<Elector>, Leadership) {
        if !self.leader_elect {
            return (None, Leadership::always());
        }
        let options = ElectorOptions {
            namespace: self.namespace(&namespace).to_owned(),
            name: controller.lease(),
            duration: self.leader_elect_lease_duration,
        };
        let (elector, leadership) = Elector::new(client.clone(), options, clock);
        (Some(elector), leadership)
    }
}
