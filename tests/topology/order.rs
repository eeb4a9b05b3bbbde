//! The order of objects has no effect: equal objects give equal bytes.

use policy_sync_topology::show::picture::Picture;
use policy_sync_topology::show::{Scope, TopologyReport, dot, faults, svg, tree};
use policy_sync_topology::{Graph, GraphInput};
use proptest::prelude::*;
use serde_json::Value;

use crate::shorthand::objects;
use crate::worlds::world;

/// All output formats of `graph_input`.
fn printed(graph_input: &GraphInput<'_>) -> [String; 4] {
    let graph = Graph::build(graph_input);
    let report = TopologyReport::new(&graph, Scope::default(), faults(&graph, &|_| None));
    let picture = svg::svg(&Picture::new(&report), &|_| None);
    [serde_json::to_string(&report).unwrap(), dot::dot(&report), tree::tree(&report).join("\n"), picture]
}

/// `graph_input` with the objects of each kind in another order, which depends on `by`.
fn turned<'f>(mut graph_input: GraphInput<'f>, by: usize) -> GraphInput<'f> {
    fn turn<T>(list: &mut [T], by: usize) {
        let by = by % list.len().max(1);
        list.rotate_left(by);
        list.reverse();
    }
    turn(&mut graph_input.gateways.objects, by);
    graph_input.sets.iter_mut().for_each(|rows| turn(&mut rows.objects, by));
    graph_input.backends.iter_mut().for_each(|rows| turn(&mut rows.objects, by));
    turn(&mut graph_input.grants.objects, by);
    turn(&mut graph_input.policies, by);
    for routes in &mut graph_input.routes {
        turn(&mut routes.objects, by);
    }
    graph_input
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn output_does_not_depend_on_the_order_of_objects(world in world(), by in 0_usize..8) {
        let in_order = objects(&world);
        let mut others: Vec<&Value> = world.iter().collect();
        others.rotate_left(by % world.len());
        others.reverse();
        let other = objects(others);
        let expected = printed(&in_order.graph_input());
        prop_assert_eq!(&printed(&other.graph_input()), &expected);
        prop_assert_eq!(&printed(&turned(in_order.graph_input(), by)), &expected);
    }
}
