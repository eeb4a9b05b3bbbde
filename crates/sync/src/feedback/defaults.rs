//! The values that agents report by default about copies of some kinds, in addition to conditions. The parameters need
//! no `statusFields` for them.
//!
//! The tables match Kuadrant 1.5: its operator's `api/v1/dnspolicy_types.go`, `dnspolicy_status_updater.go` and
//! `gateway_policy_discoverability_reconciler.go`. A path has to yield one scalar, the same at each evaluation, so
//! maps and lists are read with keys that the hub knows.

use std::collections::BTreeSet;

use serde_json::Value;

use policy_sync_api::gateway::LISTENERS_LIMIT;
use policy_sync_api::names::GroupResource;
use policy_sync_api::params::{Params, Role, StatusField};
use policy_sync_api::syntax::is_dns_subdomain;

/// The names and paths of values.
type Fields = &'static [(&'static str, &'static str)];

/// The values of each kind, by its API group and plural name.
const DEFAULTS: &[(&str, &str, Fields)] = &[(
    "kuadrant.io",
    "dnspolicies",
    &[
        ("subResourcesHealthy", r#".status.conditions[?(@.type=="SubResourcesHealthy")].status"#),
        ("subResourcesHealthyReason", r#".status.conditions[?(@.type=="SubResourcesHealthy")].reason"#),
        ("subResourcesHealthyMessage", r#".status.conditions[?(@.type=="SubResourcesHealthy")].message"#),
        ("totalRecords", ".status.totalRecords"),
    ],
)];

/// The prefix of the names of values from `recordConditions`.
pub(crate) const RECORD_CONDITIONS: &str = "recordConditions.";

/// The values for each host of the targeted listeners. `HOST` is replaced by the host.
///
/// The lists of `recordConditions` contain only conditions that report a fault, including those of health checks.
const HOST_DEFAULTS: &[(&str, &str, Fields)] = &[(
    "kuadrant.io",
    "dnspolicies",
    &[
        ("recordConditions.HOST.reason", ".status.recordConditions['HOST'][0].reason"),
        ("recordConditions.HOST.message", ".status.recordConditions['HOST'][0].message"),
    ],
)];

/// The placeholder for a host.
const HOST: &str = "HOST";
/// The maximum number of hosts whose values are requested. Their values take at most 32 of the 64 values that are kept
/// of a copy.
const HOSTS_LIMIT: usize = 16;

/// The conditions in which a Gateway and its listeners report which policies of a kind affect them. Such a condition
/// exists only if policies affect the object, and its message names these policies.
const AFFECTED: &[(&str, &str, &str)] = &[
    ("kuadrant.io", "authpolicies", "kuadrant.io/AuthPolicyAffected"),
    ("kuadrant.io", "dnspolicies", "kuadrant.io/DNSPolicyAffected"),
    ("kuadrant.io", "ratelimitpolicies", "kuadrant.io/RateLimitPolicyAffected"),
    ("kuadrant.io", "tlspolicies", "kuadrant.io/TLSPolicyAffected"),
    ("kuadrant.io", "tokenratelimitpolicies", "kuadrant.io/TokenRateLimitPolicyAffected"),
];
/// The maximum number of [`AFFECTED`] values for all listeners together. If the listeners would exceed this number,
/// only the values of the Gateway itself are requested.
const LISTENER_VALUES_LIMIT: usize = 48;

/// The default values of a policy of `kind`, including those of `hosts`.
pub(crate) fn of_kind(kind: &GroupResource, hosts: &BTreeSet<&str>) -> Vec<StatusField> {
    let fields = rows(DEFAULTS, kind).map(|(name, path)| field((*name).to_owned(), (*path).to_owned()));
    let of_hosts = hosts.iter().take(HOSTS_LIMIT).flat_map(|host| {
        // JSONPath requires dots in quoted names to be escaped.
        let quoted = host.replace('.', r"\.");
        rows(HOST_DEFAULTS, kind)
            .map(move |(name, path)| field(name.replace(HOST, host), path.replace(HOST, &quoted)))
    });
    fields.chain(of_hosts).collect()
}

/// Whether policies of `kind` have values for each host.
pub(crate) fn has_hosts(kind: &GroupResource) -> bool {
    rows(HOST_DEFAULTS, kind).next().is_some()
}

/// The hosts of the listeners of a Gateway with this spec.
pub(crate) fn hosts(spec: &Value) -> impl Iterator<Item = &str> {
    let listeners = spec["listeners"].as_array().into_iter().flatten().take(LISTENERS_LIMIT);
    let hosts = listeners.filter_map(|listener| listener["hostname"].as_str());
    hosts.filter(|host| is_dns_subdomain(host.strip_prefix("*.").unwrap_or(host)))
}

/// The values of a Gateway with these `listeners`, whose class has these parameters. They are the values that the
/// parameters list, and the conditions that name the policies affecting the Gateway. Such a condition is requested for
/// each kind that the class syncs.
pub(crate) fn of_gateway(params: &Params, listeners: &[&str]) -> Vec<StatusField> {
    let listed: Vec<GroupResource> = params.listed(Role::Policy).map(|gvr| gvr.kind).collect();
    let is_listed = |group: &str, resource: &str| {
        listed.iter().any(|kind| *kind.group == *group && *kind.resource == *resource)
    };
    let conditions: Vec<&str> = AFFECTED
        .iter()
        .filter(|(group, resource, _)| is_listed(group, resource))
        .map(|(_, _, condition)| *condition)
        .collect();
    let message = |listener: Option<&str>, condition: &str| {
        let (within, root) = match listener {
            None => (String::new(), String::new()),
            Some(name) => (format!("listeners.{name}."), format!(r#".listeners[?(@.name=="{name}")]"#)),
        };
        let name = condition.rsplit('/').next().unwrap_or(condition);
        field(
            format!("{within}{name}"),
            format!(r#".status{root}.conditions[?(@.type=="{condition}")].message"#),
        )
    };
    let fits = listeners.len() * conditions.len() <= LISTENER_VALUES_LIMIT;
    let places = [None].into_iter().chain(listeners.iter().copied().filter(|_| fits).map(Some));
    let affected = places.flat_map(|place| conditions.iter().map(move |condition| message(place, condition)));
    let mut fields = params.gateway_status_fields.clone();
    for default in affected {
        if fields.iter().all(|field| field.name != default.name) {
            fields.push(default);
        }
    }
    fields
}

fn rows(
    table: &'static [(&str, &str, Fields)],
    kind: &GroupResource,
) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let of_kind =
        table.iter().filter(|(group, resource, _)| *kind.group == **group && *kind.resource == **resource);
    of_kind.flat_map(|(_, _, fields)| *fields)
}

fn field(name: String, path: String) -> StatusField {
    StatusField { name, path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy_sync_api::params::StatusPath;
    use serde_json::json;

    fn kinds() -> impl Iterator<Item = GroupResource> {
        let tables = DEFAULTS.iter().chain(HOST_DEFAULTS);
        tables.map(|(group, resource, _)| GroupResource::new(group, resource))
    }

    #[test]
    fn default_paths_are_valid_in_parameters() {
        let hosts = BTreeSet::from(["*.example.com", "shop.example.com"]);
        let mut fields: Vec<StatusField> = kinds().flat_map(|kind| of_kind(&kind, &hosts)).collect();
        let listed = AFFECTED
            .iter()
            .map(|(group, resource, _)| json!({"group": group, "version": "v1", "resource": resource}));
        let params = json!({"policiesToSync": listed.collect::<Vec<_>>()});
        let params = Params::parse(&params.to_string()).unwrap();
        let of_gateway = of_gateway(&params, &[]);
        assert_eq!(of_gateway.len(), AFFECTED.len());
        fields.extend(of_gateway);
        assert!(fields.len() > AFFECTED.len() + 4);
        for field in fields {
            assert_eq!(StatusPath::parse(&field.path).map(drop), Ok(()), "{}", field.path);
        }
    }

    #[test]
    fn host_values_are_read_by_key_and_limited() {
        let kind = GroupResource::new("kuadrant.io", "dnspolicies");
        let spec = json!({"listeners": [{"hostname": "*.example.com"}, {"hostname": "a']"}, {"hostname": 5}, {}, {"hostname": "a.b"}]});
        let found: BTreeSet<&str> = hosts(&spec).collect();
        assert_eq!(found, BTreeSet::from(["*.example.com", "a.b"]));
        let fields = of_kind(&kind, &found);
        let message = fields.iter().find(|field| field.name == "recordConditions.*.example.com.message");
        let path = message.map(|field| &*field.path);
        assert_eq!(path, Some(r".status.recordConditions['*\.example\.com'][0].message"));
        let many: Vec<String> = (10..100).map(|number| format!("h{number}.example.com")).collect();
        let many = of_kind(&kind, &many.iter().map(String::as_str).collect());
        let of_hosts = many.iter().filter(|field| field.name.starts_with("recordConditions."));
        assert_eq!(of_hosts.count(), 2 * HOSTS_LIMIT);
        assert!(many.iter().any(|field| field.name == "recordConditions.h10.example.com.reason"));
    }

    #[test]
    fn gateway_reports_affecting_policies_of_its_class_kinds() {
        let params = |more: &str| {
            let text = format!(
                r#"{{"policiesToSync": [{{"group": "kuadrant.io", "version": "v1", "resource": "authpolicies"}},
                    {{"group": "example.com", "version": "v1", "resource": "authpolicies"}}]{more}}}"#
            );
            Params::parse(&text).unwrap()
        };
        let named = |fields: Vec<StatusField>| -> Vec<String> {
            fields.into_iter().map(|field| format!("{} {}", field.name, field.path)).collect()
        };
        let expected = [
            r#"AuthPolicyAffected .status.conditions[?(@.type=="kuadrant.io/AuthPolicyAffected")].message"#,
            r#"listeners.http.AuthPolicyAffected .status.listeners[?(@.name=="http")].conditions[?(@.type=="kuadrant.io/AuthPolicyAffected")].message"#,
        ];
        assert_eq!(named(of_gateway(&params(""), &["http"])), expected);
        let own = r#", "gatewayStatusFields": [{"name": "AuthPolicyAffected", "path": ".status.own"}, {"name": "mine", "path": ".status.mine"}]"#;
        let expected = ["AuthPolicyAffected .status.own", "mine .status.mine"];
        assert_eq!(named(of_gateway(&params(own), &[])), expected);
        let listeners: Vec<String> = (0..=LISTENER_VALUES_LIMIT).map(|number| format!("l{number}")).collect();
        let listeners: Vec<&str> = listeners.iter().map(String::as_str).collect();
        assert_eq!(of_gateway(&params(""), &listeners[1..]).len(), 1 + LISTENER_VALUES_LIMIT);
        assert_eq!(of_gateway(&params(""), &listeners).len(), 1);
        assert!(of_gateway(&Params::default(), &["http"]).is_empty());
    }
}
