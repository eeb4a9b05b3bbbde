//! Divides a limit, of bytes or of objects, among namespaces in fair shares. Selects the documents to leave out because
//! their namespace exceeds its share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use policy_sync_api::names::GroupResource;

/// A part: the documents of one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct NamespacedKind {
    /// The namespace. Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The kind.
    pub kind: GroupResource,
}

/// Selects the parts to leave out, so that the other parts take at most `budget`. `sizes` has the size of each part.
///
/// The result depends only on the sizes, so all replicas agree. Cluster-scoped objects count first and are never left
/// out, because tenants cannot create them. The rest of the budget is divided among the namespaces by max-min fairness,
/// which yields one limit for all namespaces. If a namespace exceeds the limit, its largest kinds are left out until
/// the namespace fits. If parts are left out, a 16th of that rest stays free, so that small growth does not leave out
/// more parts.
#[must_use]
pub(super) fn left_out(sizes: &BTreeMap<NamespacedKind, usize>, budget: usize) -> BTreeSet<NamespacedKind> {
    let mut namespaces: BTreeMap<&str, Vec<(&NamespacedKind, usize)>> = BTreeMap::new();
    for (part, bytes) in sizes {
        namespaces.entry(&*part.namespace).or_default().push((part, *bytes));
    }
    let total = |parts: &Vec<(&NamespacedKind, usize)>| parts.iter().map(|(_, bytes)| bytes).sum::<usize>();
    let cluster = namespaces.remove("").as_ref().map_or(0, total);
    let room = budget.saturating_sub(cluster);
    let totals: Vec<usize> = namespaces.values().map(total).collect();
    if totals.iter().sum::<usize>() <= room {
        return BTreeSet::new();
    }
    let level = level(totals, room - room / 16);
    let mut left_out = BTreeSet::new();
    for mut parts in namespaces.into_values() {
        let mut rest = total(&parts);
        parts.sort_by(|(one, bytes), (other, more)| more.cmp(bytes).then_with(|| one.cmp(other)));
        for (part, bytes) in parts {
            if rest <= level {
                break;
            }
            rest -= bytes;
            left_out.insert(part.clone());
        }
    }
    left_out
}

/// The max-min fair limit for demands of the sizes `wanted` that share `room`.
fn level(mut wanted: Vec<usize>, mut room: usize) -> usize {
    wanted.sort_unstable();
    let count = wanted.len();
    for (number, wanted) in wanted.into_iter().enumerate() {
        let share = room / (count - number);
        if wanted > share {
            return share;
        }
        room -= wanted;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Sizes = BTreeMap<NamespacedKind, usize>;

    fn part(namespace: &str, kind: &str) -> NamespacedKind {
        NamespacedKind { namespace: namespace.into(), kind: GroupResource::new("", kind) }
    }

    fn sizes(sizes: &[(&str, &str, usize)]) -> Sizes {
        sizes.iter().map(|(namespace, kind, bytes)| (part(namespace, kind), *bytes)).collect()
    }

    fn of(sizes: &Sizes, namespace: &str) -> usize {
        sizes.iter().filter(|(part, _)| &*part.namespace == namespace).map(|(_, bytes)| bytes).sum()
    }

    fn rest(sizes: &Sizes, left_out: &BTreeSet<NamespacedKind>) -> Sizes {
        sizes
            .iter()
            .filter(|(part, _)| !left_out.contains(part))
            .map(|(part, bytes)| (part.clone(), *bytes))
            .collect()
    }

    #[test]
    fn namespace_over_its_share_loses_its_largest_kinds() {
        let found = |of: &[(&str, &str, usize)]| {
            left_out(&sizes(of), 160)
                .into_iter()
                .map(|part| format!("{}/{}", part.namespace, part.kind))
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&[]), [""; 0]);
        assert_eq!(found(&[("a", "pods", 100), ("b", "pods", 60)]), [""; 0], "all fit");
        assert_eq!(found(&[("a", "pods", 101), ("b", "pods", 60)]), ["a/pods"]);
        assert_eq!(found(&[("a", "pods", 80), ("a", "services", 20), ("b", "pods", 70)]), ["a/pods"]);
        assert_eq!(found(&[("a", "pods", 90), ("b", "pods", 90)]), ["a/pods", "b/pods"], "they are alike");
        assert_eq!(found(&[("", "nodes", 150), ("a", "pods", 5), ("b", "pods", 6)]), ["b/pods"]);
        assert_eq!(found(&[("", "nodes", 500), ("a", "pods", 5)]), ["a/pods"]);
    }

    prop_compose! {
        fn any_sizes()(sizes in prop::collection::btree_map((0..12_usize, 0..4_usize), 0..1_000_usize, 0..40)) -> Sizes {
            let name = |(namespace, kind): (usize, usize)| {
                let namespace = if namespace == 0 { String::new() } else { format!("n{namespace}") };
                part(&namespace, &format!("k{kind}"))
            };
            sizes.into_iter().map(|(place, bytes)| (name(place), bytes)).collect()
        }
    }

    proptest! {
        #[test]
        fn remaining_documents_fit_and_none_are_left_out_needlessly(sizes in any_sizes(), budget in 0..10_000_usize) {
            let left_out = left_out(&sizes, budget);
            let remaining: usize = rest(&sizes, &left_out).values().sum();
            prop_assert!(remaining <= budget.max(of(&sizes, "")));
            prop_assert!(left_out.iter().all(|part| !part.namespace.is_empty()));
            if sizes.values().sum::<usize>() <= budget {
                prop_assert!(left_out.is_empty());
            }
        }

        #[test]
        fn equal_share_is_always_kept(sizes in any_sizes(), budget in 0..10_000_usize) {
            let room = budget.saturating_sub(of(&sizes, ""));
            let namespaces: BTreeSet<_> = sizes.keys().map(|part| &*part.namespace).filter(|name| !name.is_empty()).collect();
            for part in left_out(&sizes, budget) {
                prop_assert!(of(&sizes, &part.namespace) > (room - room / 16) / namespaces.len());
            }
        }

        #[test]
        fn growth_of_one_namespace_does_not_affect_others(
            sizes in any_sizes(), budget in 0..10_000_usize, more in 1..100_000_usize,
        ) {
            let before = left_out(&sizes, budget);
            for greedy in &before {
                let mut grown = sizes.clone();
                *grown.get_mut(greedy).unwrap() += more;
                let others = |left_out: &BTreeSet<NamespacedKind>| {
                    left_out.iter().filter(|part| part.namespace != greedy.namespace).cloned().collect::<Vec<_>>()
                };
                prop_assert_eq!(others(&before), others(&left_out(&grown, budget)));
            }
        }
    }
}
