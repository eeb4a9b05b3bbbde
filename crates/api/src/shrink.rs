//! Maps that give back the room that they no longer need.
//!
//! A map keeps the room for as much as it has ever held. What others can make many of, a tenant's objects or a spoke's, must
//! leave nothing behind when it goes.

use std::collections::HashMap;
use std::hash::Hash;

use dashmap::DashMap;

/// So many entries are not worth giving back.
const FEW: usize = 512;

/// Whether a collection of `len` entries has room for many more. What makes it so is that most of them went, so giving
/// the room back costs each of those a constant.
pub fn is_roomy(len: usize, capacity: usize) -> bool {
    capacity > FEW && len < capacity / 8
}

/// Gives back most of the room of `map`, where it has much.
pub fn give_back<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if is_roomy(map.len(), map.capacity()) {
        map.shrink_to(2 * map.len());
    }
}

/// Takes `key` out of a map that several tasks write. To look how much room it has takes a look at all of its shards, so only
/// what really goes makes it look.
pub fn take<K: Eq + Hash, V>(map: &DashMap<K, V>, key: &K) -> Option<V> {
    let (_, value) = map.remove(key)?;
    give_back_shared(map);
    Some(value)
}

/// Gives back most of the room of a map that several tasks write, where it has much.
pub fn give_back_shared<K: Eq + Hash, V>(map: &DashMap<K, V>) {
    if is_roomy(map.len(), map.capacity()) {
        map.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_held_many_has_no_room_for_them_once_they_are_gone() {
        let mut map: HashMap<usize, usize> = (0..10_000).map(|number| (number, number)).collect();
        for number in 0..9_990 {
            map.remove(&number);
            give_back(&mut map);
        }
        assert!(map.capacity() <= 2 * FEW, "{}", map.capacity());
        assert_eq!(map.len(), 10);
    }

    #[test]
    fn nor_has_what_several_tasks_write() {
        let map: DashMap<usize, usize> = (0..10_000).map(|number| (number, number)).collect();
        for number in 0..9_990 {
            take(&map, &number);
        }
        assert!(map.capacity() <= 2 * FEW, "{}", map.capacity());
        assert_eq!(map.len(), 10);
    }
}
