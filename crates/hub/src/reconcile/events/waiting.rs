//! A queue of Events in which tenants take turns and have a limited share.

use std::sync::Arc;

use policy_sync_api::in_turn::InTurn;
use policy_sync_api::tenant::Tenant;

/// The maximum number of waiting Events of one tenant.
pub(super) const SHARE: usize = 32;
/// The maximum number of waiting Events.
pub(super) const WAITING: usize = 512;

/// Waiting Events.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    events: InTurn<T>,
    count: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { events: InTurn::default(), count: 0 }
    }
}

impl<T> Waiting<T> {
    /// Adds an event and returns the dropped one, if any.
    ///
    /// - If the tenant has used up its share, the new event is dropped.
    /// - If the queue is full, the newest event of the tenant with the most is dropped.
    /// - If no other tenant has more than this one would have, the new event is dropped instead.
    pub(super) fn push(&mut self, tenant: Tenant, event: T) -> Option<T> {
        let tenant: Arc<str> = tenant.into();
        let own = self.events.count(&tenant);
        if own >= SHARE {
            return Some(event);
        }
        let mut dropped = None;
        if self.count >= WAITING {
            let most = self.events.largest().filter(|(_, count)| *count > own + 1);
            let Some((most, _)) = most else { return Some(event) };
            dropped = self.events.pop_newest(&most);
            self.count -= usize::from(dropped.is_some());
        }
        self.events.push(tenant, event);
        self.count += 1;
        dropped
    }

    /// Removes and returns the next event.
    pub(super) fn pop(&mut self) -> Option<T> {
        let event = self.events.pop()?;
        self.count -= 1;
        self.events.give_back();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::namespace(name)
    }

    fn all(waiting: &mut Waiting<u32>) -> Vec<u32> {
        std::iter::from_fn(|| waiting.pop()).collect()
    }

    #[test]
    fn one_tenant_displaces_no_event_of_another_and_delays_each_by_one() {
        let mut waiting = Waiting::default();
        let dropped = (0..9_240).filter_map(|number| waiting.push(tenant("hostile"), number)).count();
        assert_eq!(dropped, 9_240 - SHARE);
        for number in 10_000..10_012 {
            assert_eq!(waiting.push(tenant("shop"), number), None);
        }
        let order = all(&mut waiting);
        let own: Vec<usize> = (0..order.len()).filter(|at| order[*at] >= 10_000).collect();
        assert_eq!(own, (0..12).map(|number| 2 * number + 1).collect::<Vec<_>>());
    }

    #[test]
    fn many_busy_tenants_leave_room_for_another() {
        let mut waiting = Waiting::default();
        for number in 0..100_000_u32 {
            let _dropped = waiting.push(tenant(&(number % 100).to_string()), number);
            assert!(waiting.count <= WAITING);
        }
        for number in 0..3 {
            let dropped = waiting.push(tenant("shop"), 200_000 + number).unwrap();
            assert!(dropped < 200_000, "its own is dropped");
        }
        let order = all(&mut waiting);
        assert_eq!((order.len(), waiting.count), (WAITING, 0));
        assert_eq!(order.iter().filter(|number| **number >= 200_000).count(), 3);
    }

    #[test]
    fn new_event_is_dropped_if_all_tenants_have_equally_many() {
        let mut waiting = Waiting::default();
        for number in 0..512 {
            assert_eq!(waiting.push(tenant(&number.to_string()), number), None);
        }
        assert_eq!(waiting.push(tenant("late"), 999), Some(999));
    }
}
