//! Releases unused memory of maps.
//!
//! A map keeps its capacity when entries are removed. Without these functions, a burst of objects of a tenant or a
//! spoke would occupy memory forever.

use std::collections::HashMap;
use std::hash::Hash;

use dashmap::DashMap;

/// The capacity below which releasing memory is not worthwhile.
const MIN_CAPACITY: usize = 512;

/// Whether a collection of `len` entries uses less than an eighth of its capacity. Most entries have then been removed,
/// so the amortized cost of shrinking per removal is constant.
pub fn is_sparse(len: usize, capacity: usize) -> bool {
    capacity > MIN_CAPACITY && len < capacity / 8
}

/// Shrinks `map` if most of its capacity is unused.
pub fn shrink_if_sparse<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if is_sparse(map.len(), map.capacity()) {
        map.shrink_to(2 * map.len());
    }
}

/// Removes `key` from a concurrent map, and shrinks the map if most of its capacity is unused. If `key` is absent, the
/// capacity is not checked, because the check locks each shard.
pub fn take<K: Eq + Hash, V>(map: &DashMap<K, V>, key: &K) -> Option<V> {
    let (_, value) = map.remove(key)?;
    shrink_concurrent(map);
    Some(value)
}

/// Shrinks a concurrent map if most of its capacity is unused.
pub fn shrink_concurrent<K: Eq + Hash, V>(map: &DashMap<K, V>) {
    if is_sparse(map.len(), map.capacity()) {
        map.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_shrinks_when_most_entries_are_removed() {
        let mut map: HashMap<usize, usize> = (0..10_000).map(|number| (number, number)).collect();
        for number in 0..9_990 {
            map.remove(&number);
            shrink_if_sparse(&mut map);
        }
        assert!(map.capacity() <= 2 * MIN_CAPACITY, "{}", map.capacity());
        assert_eq!(map.len(), 10);
    }

    #[test]
    fn concurrent_map_shrinks_when_most_entries_are_removed() {
        let map: DashMap<usize, usize> = (0..10_000).map(|number| (number, number)).collect();
        for number in 0..9_990 {
            take(&map, &number);
        }
        assert!(map.capacity() <= 2 * MIN_CAPACITY, "{}", map.capacity());
        assert_eq!(map.len(), 10);
    }
}
