use super::*;
use crate::locator::{KindRef, Locator};
use crate::merge::{Entry, MergeStrategy};
use crate::object::Object;
use crate::rules::PolicyRule;

const LIMITS: KindRef<'static> = KindRef { group: "example.com", kind: "LimitPolicy" };

/// A node of the kind `Node`.
const fn node(name: &str) -> Locator<'_> {
    Locator::new(KindRef { group: "", kind: "Node" }, "ns", name)
}

/// A policy with one rule and any targets.
struct Limits {
    name: &'static str,
    targets: Vec<Locator<'static>>,
    rules: Vec<PolicyRule>,
    inherited: bool,
}

fn limits(name: &'static str, targets: &[&'static str]) -> Limits {
    let targets = targets.iter().map(|name| node(name)).collect();
    Limits { name, targets, rules: vec![PolicyRule::new("limit", &name.into())], inherited: true }
}

impl Object for Limits {
    fn locator(&self) -> Locator<'_> {
        Locator::new(LIMITS, "ns", self.name)
    }
}

impl Policy for Limits {
    fn targets(&self) -> Vec<Locator<'_>> {
        self.targets.clone()
    }

    fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    fn is_inherited(&self) -> bool {
        self.inherited
    }
}

/// Links between the nodes of these names, as `a>b a>c`.
fn linked(links: &'static str) -> Vec<(Locator<'static>, Locator<'static>)> {
    let pairs = links.split(' ').map(|pair| pair.split_once('>').unwrap());
    pairs.map(|(from, to)| (node(from), node(to))).collect()
}

/// Builds a topology with these links and policies.
fn build<'o>(
    links: &'static str,
    policies: &'o [Limits],
    nodes: &'o [Locator<'static>],
) -> Result<Topology<Node<'o>, &'o dyn Policy>, BuildError> {
    let builder = Topology::builder().targetables(nodes).policies(policies);
    linked(links).into_iter().fold(builder, |builder, (from, to)| builder.link(from, to)).build()
}

const NODES: [Locator<'static>; 4] = [node("d"), node("c"), node("b"), node("a")];

/// The names of nodes.
fn names<'o>(
    topology: &Topology<Node<'o>, &'o dyn Policy>,
    nodes: impl IntoIterator<Item = NodeId>,
) -> String {
    nodes.into_iter().map(|id| topology.node(id).locator().name).collect()
}

#[test]
fn parents_children_and_roots_follow_links() {
    let topology = build("a>b a>c b>d c>d a>missing", &[], &NODES).unwrap();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| topology.find(&node(name)).unwrap());
    assert_eq!(names(&topology, topology.children(a)), "bc");
    assert_eq!(names(&topology, topology.parents(d)), "bc");
    assert_eq!(names(&topology, topology.parents(b)), "a");
    assert_eq!(names(&topology, topology.children(d)), "");
    assert_eq!(names(&topology, topology.roots()), "a");
    assert_eq!(topology.links().count(), 4, "a link to a missing object is ignored");
    assert_eq!(names(&topology, [c]), "c");
}

#[test]
fn paths_between_two_nodes_are_found_in_order() {
    let topology = build("a>b a>c b>d c>d b>c", &[], &NODES).unwrap();
    let [a, d] = ["a", "d"].map(|name| topology.find(&node(name)).unwrap());
    let paths: Vec<String> = topology.paths(a, d).map(|path| names(&topology, path)).collect();
    assert_eq!(paths, ["abcd", "abd", "acd"]);
    let itself: Vec<String> = topology.paths(a, a).map(|path| names(&topology, path)).collect();
    assert_eq!(itself, ["a"]);
    assert_eq!(topology.paths(d, a).count(), 0);
}

#[test]
fn cycles_and_duplicates_are_errors_that_name_them() {
    let found = build("a>b b>c c>d d>b", &[], &NODES).unwrap_err();
    assert_eq!(found.to_string(), "the links form a cycle: node:ns/b -> node:ns/c -> node:ns/d -> node:ns/b");
    let found = build("a>a", &[], &NODES).unwrap_err();
    assert_eq!(found, BuildError::Cycle(vec!["node:ns/a".to_owned(), "node:ns/a".to_owned()]));
    let found = build("a>b", &[], &[node("a"), node("b"), node("a")]).unwrap_err();
    assert_eq!(found.to_string(), "node:ns/a is given twice");
    let policies = [limits("l", &["a"]), limits("l", &["b"])];
    let found = build("a>b", &policies, &NODES).unwrap_err();
    assert_eq!(found, BuildError::Duplicate("limitpolicy.example.com:ns/l".to_owned()));
}

#[test]
fn policies_attach_to_existing_targetable_nodes_once() {
    let policies = [limits("l", &["a", "a", "missing", "secret"]), limits("k", &["a", "b"])];
    let secret = [node("secret")];
    let builder = Topology::builder().targetables(&NODES).objects(&secret).policies(&policies);
    let topology = builder.build().unwrap();
    let of = |name: &str| -> Vec<&str> {
        let node = topology.find(&node(name)).unwrap();
        topology.policies_of(node).map(|id| topology.policy(id).locator().name).collect()
    };
    assert_eq!(of("a"), ["k", "l"]);
    assert_eq!(of("b"), ["k"]);
    assert!(of("secret").is_empty(), "a Secret is no target");
}

#[test]
fn sections_are_found_by_their_names() {
    let route = Locator::new(KindRef { group: "", kind: "Route" }, "ns", "r");
    let rule = route.with(Some(crate::locator::Section::Rule(1)));
    let nodes = [route, rule, route.section("named")];
    let topology = Topology::builder().targetables(&nodes).build().unwrap();
    for locator in [route, rule, route.section("named"), route.section("rule-1")] {
        assert!(topology.find(&locator).is_some(), "{locator}");
    }
    assert!(topology.find(&route.section("other")).is_none());
}

#[test]
fn direct_policies_apply_at_their_target_only() {
    let direct = Limits { inherited: false, ..limits("direct", &["a"]) };
    let policies = [direct];
    let topology = build("a>b", &policies, &NODES).unwrap();
    let [a, b] = ["a", "b"].map(|name| topology.find(&node(name)).unwrap());
    assert_eq!(topology.effective(&[a]).len(), 1);
    assert!(topology.effective(&[a, b]).is_empty());
}

#[test]
fn rules_may_be_in_any_order() {
    let rules = ["c", "a", "b"].map(|key| PolicyRule::new(key, &key.into())).into();
    let policies = [Limits { rules, ..limits("l", &["a"]) }];
    let topology = build("a>b", &policies, &NODES).unwrap();
    let effective = &topology.effective(&[topology.find(&node("a")).unwrap()])[0];
    assert_eq!(effective.rules.iter().map(Entry::key).collect::<Vec<_>>(), ["a", "b", "c"]);
    for key in ["a", "b", "c"] {
        assert!(effective.rule(key).is_some(), "{key}");
    }
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "two rules of limitpolicy.example.com:ns/l have the same key")]
fn duplicate_keys_panic_with_debug_assertions() {
    let rules = ["a", "b", "a"].map(|key| PolicyRule::new(key, &key.into())).into();
    let policies = [Limits { rules, ..limits("l", &["a"]) }];
    let topology = build("a>b", &policies, &NODES).unwrap();
    let _ = topology.effective(&[topology.find(&node("a")).unwrap()]);
}

#[test]
fn nodes_of_larger_topologies_have_no_links_and_no_policies() {
    let policies = [limits("l", &["a", "b"])];
    let topology = build("a>b", &policies, &NODES[2..]).unwrap();
    for foreign in [2, 3].map(NodeId::new) {
        assert_eq!(topology.children(foreign).count(), 0, "{foreign:?}");
        assert_eq!(topology.parents(foreign).count(), 0, "{foreign:?}");
        assert_eq!(topology.policies_of(foreign).count(), 0, "{foreign:?}");
        assert!(topology.effective(&[foreign]).is_empty(), "{foreign:?}");
    }
}

#[test]
fn policies_of_several_kinds_do_not_merge() {
    struct Other(Limits);
    impl Object for Other {
        fn locator(&self) -> Locator<'_> {
            Locator { kind: KindRef { group: "a.example.com", kind: "LimitPolicy" }, ..self.0.locator() }
        }
    }
    impl Policy for Other {
        fn targets(&self) -> Vec<Locator<'_>> {
            self.0.targets()
        }

        fn rules(&self) -> &[PolicyRule] {
            self.0.rules()
        }

        fn strategy(&self) -> &dyn MergeStrategy {
            &crate::merge::AtomicOverrides
        }
    }
    let (policies, others) = ([limits("l", &["b"])], [Other(limits("l", &["a"]))]);
    let topology = Topology::builder().targetables(&NODES).policies(&policies).policies(&others);
    let topology = topology.link(NODES[3], NODES[2]).build().unwrap();
    let path = ["a", "b"].map(|name| topology.find(&node(name)).unwrap());
    let kinds: Vec<String> =
        topology.effective(&path).iter().map(|effective| effective.kind.to_string()).collect();
    assert_eq!(kinds, ["LimitPolicy.a.example.com", "LimitPolicy.example.com"]);
}

#[test]
fn dot_has_nodes_policies_and_links() {
    let policies = [limits("l", &["b"])];
    let topology = build("a>b", &policies, &NODES[2..]).unwrap();
    let expected = "strict digraph {
  graph [rankdir=LR];
  \"limitpolicy.example.com:ns/l\" -> \"node:ns/b\" [style=dashed];
  \"limitpolicy.example.com:ns/l\" [label=\"LimitPolicy\\nns/l\" shape=note];
  \"node:ns/a\" -> \"node:ns/b\";
  \"node:ns/a\" [label=\"Node\\nns/a\" shape=box];
  \"node:ns/b\" [label=\"Node\\nns/b\" shape=box];
}
";
    assert_eq!(topology.dot(), expected);
}
