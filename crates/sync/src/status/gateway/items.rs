//! Collects the addresses and listeners of all clusters for the status of a Gateway, in the order of the clusters'
//! names. An item that the API would reject is left out and counted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::ClusterReport;
use crate::feedback::{ListenerCondition, ReportedListener};
use crate::rows::gateway::Gateway;
use policy_sync_api::condition::condition;
use policy_sync_api::condition::is_reason;
use policy_sync_api::gateway::{
    ADDRESSES_LIMIT, Address, KINDS_LIMIT, LISTENERS_LIMIT, ListenerStatus, MULTI_CLUSTER_HOSTNAME_ADDRESS,
    MULTI_CLUSTER_IP_ADDRESS, RouteKind,
};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ClusterName;
use policy_sync_api::syntax::is_dns_subdomain;

/// The condition that every listener has.
const PROGRAMMED: &str = "Programmed";
/// The maximum length of an address.
const ADDRESS_LIMIT: usize = 253;

/// The addresses and listeners of the clusters that fit into the status.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) addresses: Vec<Address>,
    pub(super) listeners: Vec<ListenerStatus>,
    /// The number of addresses left out. `listeners_left_out` is the number of listeners left out.
    addresses_left_out: usize,
    listeners_left_out: usize,
    /// The number of kinds and conditions left out of included listeners.
    parts_left: usize,
}

pub(super) fn planned(
    now: Moment,
    hub: &Gateway,
    clusters: &BTreeMap<ClusterName, ClusterReport<'_>>,
) -> Items {
    let mut items = Items::default();
    let mut values = BTreeSet::new();
    for (cluster, reported) in clusters {
        let Some(report) = reported.report else { continue };
        let Some(gateway) = &report.gateway else { continue };
        for (_, text) in &gateway.addresses {
            match address(cluster, text) {
                Some(address) if !values.insert(address.value.clone()) => {}
                Some(address) if items.addresses.len() < ADDRESSES_LIMIT => items.addresses.push(address),
                _ => items.addresses_left_out += 1,
            }
        }
        for listener in &gateway.listeners {
            let name = format!("{cluster}.{}", listener.name);
            // If the number of attached routes is missing, the cluster has reported only the name of the listener.
            let Some(routes) = listener.attached_routes else { continue };
            match i32::try_from(routes) {
                Ok(routes @ 0..) if is_dns_subdomain(&name) && items.listeners.len() < LISTENERS_LIMIT => {
                    let observed = listener.observed_generation;
                    let current = reported.current && (observed.is_none() || observed == report.generation);
                    let conditions = items.conditions(now, hub, &name, listener, current);
                    let supported_kinds = items.kinds(listener);
                    let listener =
                        ListenerStatus { name, attached_routes: routes, supported_kinds, conditions };
                    items.listeners.push(listener);
                }
                _ => items.listeners_left_out += 1,
            }
        }
    }
    items.listeners.sort_by(|left, right| left.name.cmp(&right.name));
    items
}

impl Items {
    /// The suffix of a message that counts the items left out. Empty if all items fit.
    pub(super) fn left_out(&self) -> String {
        let counts = [
            (self.addresses_left_out, "addresses"),
            (self.listeners_left_out, "listeners"),
            (self.parts_left, "kinds and conditions of listeners"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!("; left out, because they do not fit: {}", parts.join(", "))
        }
    }

    fn kinds(&mut self, listener: &ReportedListener) -> Vec<RouteKind> {
        let kinds = listener.kinds.iter().take(KINDS_LIMIT);
        let fits = |group: &str| group.is_empty() || is_dns_subdomain(group);
        let kinds: Vec<RouteKind> = kinds
            .filter(|(group, _)| fits(group))
            .map(|(group, kind)| RouteKind { group: group.to_string(), kind: kind.to_string() })
            .collect();
        self.parts_left += listener.kinds.len() - kinds.len();
        kinds
    }

    /// The conditions of a listener. Always includes `Programmed`, because the API rejects a listener without
    /// conditions.
    fn conditions(
        &mut self,
        now: Moment,
        hub: &Gateway,
        name: &str,
        listener: &ReportedListener,
        current: bool,
    ) -> Vec<Condition> {
        let existing = hub.fields.status.listeners.iter().find(|existing| existing.name == name);
        let existing = existing.map_or(&[][..], |existing| &existing.conditions);
        let condition = |condition_type: &str, status: &str, reason: &str, message: &str| {
            condition(existing, condition_type, (status, reason), message.to_owned(), hub.generation, now)
        };
        let mut conditions = Vec::new();
        let reported = listener.conditions.iter().filter(|condition| current && !condition.status.is_empty());
        for ListenerCondition { condition_type, status, reason, message } in reported {
            if is_reason(reason) {
                conditions.push(condition(condition_type, status, reason, message));
            } else {
                self.parts_left += 1;
            }
        }
        if conditions.iter().all(|condition| condition.type_ != PROGRAMMED) {
            let message = "the cluster has not reported on the current revision";
            conditions.push(condition(PROGRAMMED, "Unknown", "Pending", message));
        }
        conditions.sort_by(|left, right| left.type_.cmp(&right.type_));
        conditions
    }
}

/// Parses `text` as an IP address or host name. `None` if it is neither or too long.
fn address(cluster: &ClusterName, text: &str) -> Option<Address> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let address_type = match text.parse::<IpAddr>() {
        Ok(_) => MULTI_CLUSTER_IP_ADDRESS,
        Err(_) if is_dns_subdomain(name) => MULTI_CLUSTER_HOSTNAME_ADDRESS,
        Err(_) => return None,
    };
    let value = format!("{cluster}/{text}");
    (value.len() <= ADDRESS_LIMIT).then(|| Address { address_type: address_type.to_owned(), value })
}
