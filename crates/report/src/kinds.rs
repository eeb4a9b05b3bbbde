//! The kinds of objects that a report reads from the hub, with the row type that each is pruned to.

use super::copy::CopyRow;
use super::gateway::{GatewayRow, GatewayWork};
use super::policy::PolicyRow;
use policy_sync_api::annotations::WORK_FOR;
use policy_sync_api::names::ControllerName;
use policy_sync_api::{gateway, work};
use policy_sync_mirror::{Family, Kind};
use policy_sync_sync::kinds::of_controller;

pub(super) static GATEWAYS: Kind<GatewayRow> = Kind::new(gateway::GROUP, "v1", "gateways");
/// The works with Gateways, on all clusters.
pub(super) static GATEWAY_WORKS: Kind<GatewayWork> =
    Kind::new(work::GROUP, "v1", "manifestworks").with_labels(for_gateways);
/// All works of the controller on one cluster.
pub(super) static COPIES: Kind<CopyRow> =
    Kind::new(work::GROUP, "v1", "manifestworks").with_labels(of_controller);
/// Policies and resources. Only metadata is listed, because annotations contain all information that reports show.
pub(super) static POLICIES: Family<PolicyRow> = Family::new("policies").of_metadata();

fn for_gateways(controller: &ControllerName) -> String {
    format!("{},{WORK_FOR}=gateway", of_controller(controller))
}
