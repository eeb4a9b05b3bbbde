//! A queue of Events in which tenants take turns and have a limited share.

use std::sync::Arc;

use policy_sync_api::fair_queue::FairQueue;
use policy_sync_api::tenant::Tenant;

/// The maximum number of waiting Events of one tenant.
pub(super) const MAX_EVENTS_PER_TENANT: usize = 32;
/// The maximum number of waiting Events.
pub(super) const MAX_EVENTS: usize = 512;

/// Waiting Events.
#[derive(Debug)]
pub(super) struct EventQueue<T> {
    events: FairQueue<T>,
    count: usize,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self { events: FairQueue::default(), count: 0 }
    }
}

impl<T> EventQueue<T> {
    /// Adds an event. Returns the event that is dropped for it, if any.
    ///
    /// - If the tenant has used up its share, the new event is dropped.
    /// - If the queue is full, the newest event of the tenant with the most events is dropped.
    /// - If the queue is full and no tenant has more events than the new event's tenant would have, the new event is
    ///   dropped.
    pub(super) fn push(&mut self, tenant: Tenant, event: T) -> Option<T> {
        let tenant: Arc<str> = tenant.into();
        let own = self.events.count(&tenant);
        if own >= MAX_EVENTS_PER_TENANT {
            return Some(event);
        }
        let mut dropped = None;
        if self.count >= MAX_EVENTS {
            let largest = self.events.largest().filter(|(_, count)| *count > own + 1);
            let Some((largest, _)) = largest else { return Some(event) };
            dropped = self.events.pop_newest(&largest);
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
        self.events.shrink_if_sparse();
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::namespace(name)
    }

    fn all(queue: &mut EventQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn one_tenant_displaces_no_event_of_another_and_delays_each_by_one() {
        let mut queue = EventQueue::default();
        let dropped = (0..9_240).filter_map(|number| queue.push(tenant("hostile"), number)).count();
        assert_eq!(dropped, 9_240 - MAX_EVENTS_PER_TENANT);
        for number in 10_000..10_012 {
            assert_eq!(queue.push(tenant("shop"), number), None);
        }
        let order = all(&mut queue);
        let own: Vec<usize> = (0..order.len()).filter(|at| order[*at] >= 10_000).collect();
        assert_eq!(own, (0..12).map(|number| 2 * number + 1).collect::<Vec<_>>());
    }

    #[test]
    fn many_busy_tenants_leave_room_for_another() {
        let mut queue = EventQueue::default();
        for number in 0..100_000_u32 {
            let _dropped = queue.push(tenant(&(number % 100).to_string()), number);
            assert!(queue.count <= MAX_EVENTS);
        }
        for number in 0..3 {
            let dropped = queue.push(tenant("shop"), 200_000 + number).unwrap();
            assert!(dropped < 200_000, "its own is dropped");
        }
        let order = all(&mut queue);
        assert_eq!((order.len(), queue.count), (MAX_EVENTS, 0));
        assert_eq!(order.iter().filter(|number| **number >= 200_000).count(), 3);
    }

    #[test]
    fn new_event_is_dropped_if_all_tenants_have_equally_many() {
        let mut queue = EventQueue::default();
        for number in 0..512 {
            assert_eq!(queue.push(tenant(&number.to_string()), number), None);
        }
        assert_eq!(queue.push(tenant("late"), 999), Some(999));
    }
}
