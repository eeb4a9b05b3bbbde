//! The arguments of leader election, by controller-runtime's and client-go's habits.

use std::time::Duration;

use clap::{ArgAction, Args};
use kube::Client;

use crate::api::names::ControllerName;
use crate::clock::Clock;
use crate::reconcile::{Elector, ElectorOptions, Leadership};

/// Who leads where several controllers of one name run.
#[derive(Debug, Args)]
pub(super) struct ElectionArguments {
    /// Write only while holding a Lease, so that of several controllers of one name one writes.
    #[arg(
        long,
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    leader_elect: bool,
    /// The Lease's namespace; otherwise the pod's, or the one of the kubeconfig's context.
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_namespace: Option<String>,
    /// How many seconds after its last renewal the Lease of a leader that is gone is taken over.
    #[arg(
        long,
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(3..=3600),
        value_name = "SECONDS"
    )]
    leader_elect_lease_duration: u32,
}

impl ElectionArguments {
    /// The leadership of this process, and the elector that decides it; none where there are no rivals.
    pub(super) fn stand(
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
            namespace: self.leader_elect_namespace.clone().unwrap_or(namespace),
            name: controller.lease(),
            duration: Duration::from_secs(self.leader_elect_lease_duration.into()),
        };
        let (elector, leadership) = Elector::new(client.clone(), options, clock);
        (Some(elector), leadership)
    }
}
