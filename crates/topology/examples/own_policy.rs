//! A policy kind with a merge strategy of its own: of all quotas along a path, the smallest applies.
//!
//! Run it with `cargo run -p policy-sync-topology --example own_policy`.

use std::collections::BTreeMap;
use std::error::Error;

use policy_sync_topology::locator::{GATEWAY, HTTP_ROUTE, KindRef, Locator};
use policy_sync_topology::rules::PolicyRule;
use policy_sync_topology::{Entry, MergeStrategy, Object, Policy, Topology};

const QUOTA_POLICY: KindRef<'static> = KindRef { group: "example.com", kind: "QuotaPolicy" };
const WEB: Locator<'static> = Locator::new(GATEWAY, "infra", "web");
const ORDERS: Locator<'static> = Locator::new(HTTP_ROUTE, "shop", "orders");

struct QuotaPolicy {
    locator: Locator<'static>,
    target: Locator<'static>,
    rules: Vec<PolicyRule>,
}

impl QuotaPolicy {
    fn new(namespace: &'static str, target: Locator<'static>, limits: [(&str, u64); 2]) -> Self {
        let rules = limits.map(|(key, limit)| PolicyRule::new(key, &limit.into())).into();
        Self { locator: Locator::new(QUOTA_POLICY, namespace, "quota"), target, rules }
    }
}

impl Object for QuotaPolicy {
    fn locator(&self) -> Locator<'_> {
        self.locator
    }
}

impl Policy for QuotaPolicy {
    fn targets(&self) -> Vec<Locator<'_>> {
        vec![self.target]
    }

    fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    fn strategy(&self) -> &dyn MergeStrategy {
        &Smallest
    }
}

/// Of rules with the same key, the rule with the smallest number applies.
#[derive(Debug)]
struct Smallest;

impl MergeStrategy for Smallest {
    fn merge<'p>(&self, own: Vec<Entry<'p>>, more_specific: Vec<Entry<'p>>) -> Vec<Entry<'p>> {
        let mut smallest: BTreeMap<&str, Entry<'p>> = BTreeMap::new();
        for entry in own.into_iter().chain(more_specific) {
            let kept = smallest.entry(entry.key()).or_insert(entry);
            if entry.rule.value.as_u64() < kept.rule.value.as_u64() {
                *kept = entry;
            }
        }
        smallest.into_values().collect()
    }
}

/// The effective quotas of the route, with one line for each quota.
fn quotas() -> Result<String, Box<dyn Error>> {
    let policies = [
        QuotaPolicy::new("infra", WEB, [("bytes", 1_000_000), ("requests", 100)]),
        QuotaPolicy::new("shop", ORDERS, [("bytes", 50_000), ("requests", 500)]),
    ];
    let topology =
        Topology::builder().targetables(&[WEB, ORDERS]).link(WEB, ORDERS).policies(&policies).build()?;
    let [web, orders] = [WEB, ORDERS].map(|locator| topology.find(&locator));
    let mut text = String::new();
    for path in topology.paths(web.ok_or("no Gateway")?, orders.ok_or("no route")?) {
        for entry in topology.effective(&path).iter().flat_map(|effective| &effective.rules) {
            let source = topology.policy(entry.policy).locator();
            text += &format!("{}: {} from {source}\n", entry.key(), entry.rule.value);
        }
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", quotas()?);
    Ok(())
}

#[test]
fn smallest_quota_of_each_key_applies() {
    let expected = "bytes: 50000 from quotapolicy.example.com:shop/quota\n\
                    requests: 100 from quotapolicy.example.com:infra/quota\n";
    assert_eq!(quotas().expect("the objects make a topology"), expected);
}
