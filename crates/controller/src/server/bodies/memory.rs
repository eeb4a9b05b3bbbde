//! Memory for request bodies, shared fairly by client addresses.
//!
//! A body reserves all of its memory before it is read, so a body that is being received never waits for memory. A
//! sender can hold memory for as long as its body may take to arrive. The rules are:
//!
//! - An address may hold at most as much memory as it leaves free. So there is always memory for another address.
//! - Bodies of one address are served in the order of arrival, so each address has one *next body*. Of the next bodies
//!   of all addresses, the body whose address would hold the least memory is served first.
//! - If there is too little memory for that body, bodies that are still arriving are evicted until there is enough. Each
//!   time, the address that holds the most memory loses its oldest arriving body, but only if it holds more than the
//!   waiting body's address would hold. If this would not free enough memory, nothing is evicted, and the next body of
//!   another address is considered.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Memory for bodies. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct BodyMemory(Arc<Mutex<MemoryState>>);

/// The reserved memory of one body. Dropping this value frees the memory.
#[derive(Debug)]
pub(in crate::server) struct Reservation {
    memory: BodyMemory,
    body: u64,
    /// Cancelled to request that the body gives up its memory.
    evicted: CancellationToken,
}

/// A client address; `None` if unknown.
type Address = Option<IpAddr>;

/// All sizes are in KiB.
#[derive(Debug)]
struct MemoryState {
    free: usize,
    bodies: BTreeMap<u64, TrackedBody>,
    by_address: HashMap<Address, usize>,
    waiting: Vec<WaitingBody>,
    next: u64,
}

#[derive(Debug)]
struct TrackedBody {
    address: Address,
    size: usize,
    /// `None` once the body has arrived. From then on it is never evicted.
    arriving: Option<CancellationToken>,
}

impl TrackedBody {
    /// Whether the body must give up its memory.
    fn is_evicted(&self) -> bool {
        self.arriving.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

#[derive(Debug)]
struct WaitingBody {
    body: u64,
    address: Address,
    size: usize,
    granted: oneshot::Sender<()>,
}

impl BodyMemory {
    /// Creates a memory of `all` KiB.
    pub(super) fn new(all: usize) -> Self {
        let (bodies, by_address, waiting) = Default::default();
        Self(Arc::new(Mutex::new(MemoryState { free: all, bodies, by_address, waiting, next: 0 })))
    }

    /// Registers a body from `address` without reserving memory for it.
    pub(super) fn enter(&self, address: Address) -> Reservation {
        let (mut state, evicted) = (self.0.lock(), CancellationToken::new());
        let body = state.next;
        state.next += 1;
        state.bodies.insert(body, TrackedBody { address, size: 0, arriving: Some(evicted.clone()) });
        Reservation { memory: self.clone(), body, evicted }
    }
}

impl Reservation {
    /// Waits for `size` KiB.
    pub(super) async fn reserve(&self, size: usize) {
        let (granted, waits) = oneshot::channel();
        {
            let mut state = self.memory.0.lock();
            let address = state.bodies.get(&self.body).and_then(|held| held.address);
            state.waiting.push(WaitingBody { body: self.body, address, size, granted });
            state.grant();
        }
        // The channel's sender is dropped only together with this future.
        let _ = waits.await;
    }

    /// Waits until the body must give up its memory.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Records that the whole body has arrived. From now on it keeps its memory, even if it was chosen for eviction.
    pub(super) fn arrived(&self) {
        let mut state = self.memory.0.lock();
        if let Some(held) = state.bodies.get_mut(&self.body) {
            held.arriving = None;
        }
        state.grant();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.memory.0.lock();
        if let Some(TrackedBody { address, size, .. }) = state.bodies.remove(&self.body) {
            state.free += size;
            let left = state.held_by(address) - size;
            if left == 0 {
                state.by_address.remove(&address)
            } else {
                state.by_address.insert(address, left)
            };
        }
        state.grant();
    }
}

impl MemoryState {
    fn held_by(&self, address: Address) -> usize {
        self.by_address.get(&address).copied().unwrap_or_default()
    }

    /// How much memory must be free so that `address` may reserve `size` more. After the reservation, the free memory
    /// must be at least what `address` holds.
    fn needed(&self, address: Address, size: usize) -> usize {
        self.held_by(address) + 2 * size
    }

    /// Grants waiting requests in order, and skips requests that would not fit even after evictions. Stops at the first
    /// request that needs evictions, and evicts bodies for it. Later requests wait, even if they fit.
    fn grant(&mut self) {
        self.waiting.retain(|waiting| !waiting.granted.is_closed());
        while let Some(at) = self.next() {
            let WaitingBody { body, address, size, granted } = self.waiting.remove(at);
            let Some(held) = self.bodies.get_mut(&body) else { continue };
            held.size = size;
            self.free -= size;
            *self.by_address.entry(address).or_default() += size;
            // If the receiver was dropped meanwhile, for example by a timeout, the body's reservation is dropped next,
            // which frees the memory.
            let _ = granted.send(());
        }
    }

    /// The next request to grant; `None` if no request fits. If the next request needs the memory of other bodies,
    /// evicts these bodies and also returns `None`.
    fn next(&self) -> Option<usize> {
        let (mut first, mut addresses) = (Vec::new(), HashSet::new());
        for (at, waiting) in self.waiting.iter().enumerate() {
            if addresses.insert(waiting.address) {
                first.push((self.held_by(waiting.address) + waiting.size, at, waiting.address, waiting.size));
            }
        }
        first.sort_unstable_by_key(|(would_hold, at, ..)| (*would_hold, *at));
        for (_, at, address, size) in first {
            if self.needed(address, size) <= self.free {
                return Some(at);
            }
            if self.make_room(address, size) {
                return None;
            }
        }
        None
    }

    /// Evicts arriving bodies until `address` can hold `size` more. Before each eviction, the
    /// address that loses the body must hold more than `address` would hold with `size` more. Bodies of it that are already evicted do not count.
    /// If this does not free enough memory, nothing is evicted and the result is false.
    fn make_room(&self, address: Address, size: usize) -> bool {
        let mut evicted: HashMap<Address, usize> = HashMap::new();
        for held in self.bodies.values().filter(|held| held.is_evicted()) {
            *evicted.entry(held.address).or_default() += held.size;
        }
        let (mut free, mut chosen) = (self.free + evicted.values().sum::<usize>(), BTreeMap::new());
        while free < self.needed(address, size) {
            let left = |held: &TrackedBody| {
                self.held_by(held.address) - evicted.get(&held.address).copied().unwrap_or_default()
            };
            let arriving = self.bodies.iter().filter_map(|(body, held)| {
                let token = held.arriving.as_ref().filter(|token| !token.is_cancelled())?;
                (held.size > 0 && !chosen.contains_key(body)).then_some((left(held), *body, held, token))
            });
            let most = arriving.max_by_key(|(left, body, ..)| (*left, Reverse(*body)));
            let Some((left, body, held, token)) = most else { return false };
            if left <= self.held_by(address) + size {
                return false;
            }
            chosen.insert(body, token);
            free += held.size;
            *evicted.entry(held.address).or_default() += held.size;
        }
        chosen.into_values().for_each(CancellationToken::cancel);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::time::timeout;

    use super::*;

    fn address(number: u8) -> Address {
        Some([192, 0, 2, number].into())
    }

    /// A body of the address `number` that holds `size` KiB.
    fn hold(memory: &BodyMemory, number: u8, size: usize) -> Reservation {
        let hold = memory.enter(address(number));
        hold.reserve(size).now_or_never().unwrap();
        hold
    }

    fn is_evicted(body: &Reservation) -> bool {
        body.evicted().now_or_never().is_some()
    }

    #[tokio::test]
    async fn address_that_uses_most_memory_loses_a_body_to_others() {
        let memory = BodyMemory::new(32);
        let mut strangers: Vec<Reservation> = (0..4).map(|_| hold(&memory, 1, 4)).collect();
        let second = hold(&memory, 2, 8);
        let other = memory.enter(address(3));
        let mut reserved = Box::pin(other.reserve(6));
        assert!(reserved.as_mut().now_or_never().is_none(), "8 of 32 are free");
        // Only the oldest body of the address that holds the most is evicted.
        assert_eq!(strangers.iter().map(is_evicted).collect::<Vec<_>>(), [true, false, false, false]);
        drop(strangers.remove(0));
        assert_eq!(timeout(Duration::from_secs(1), reserved).await, Ok(()));
        assert!(!strangers.iter().chain([&second]).any(is_evicted));
    }

    #[tokio::test]
    async fn arrived_bodies_are_never_evicted() {
        let memory = BodyMemory::new(16);
        let stranger = hold(&memory, 1, 8);
        stranger.arrived();
        let other = memory.enter(address(2));
        assert!(other.reserve(6).now_or_never().is_none());
        assert!(!is_evicted(&stranger));
    }

    #[tokio::test]
    async fn next_body_is_evicted_if_the_chosen_one_arrives() {
        let memory = BodyMemory::new(32);
        let strangers: Vec<Reservation> = (0..4).map(|_| hold(&memory, 1, 4)).collect();
        let _second = hold(&memory, 2, 8);
        let other = memory.enter(address(3));
        let mut reserved = Box::pin(other.reserve(6));
        assert!(reserved.as_mut().now_or_never().is_none() && is_evicted(&strangers[0]));
        strangers[0].arrived();
        assert!(is_evicted(&strangers[1]) && reserved.as_mut().now_or_never().is_none());
    }

    #[tokio::test]
    async fn address_holds_at_most_as_much_as_it_leaves_free() {
        let memory = BodyMemory::new(16);
        let first = hold(&memory, 1, 8);
        let second = memory.enter(address(1));
        let mut reserved = Box::pin(second.reserve(1));
        assert!(reserved.as_mut().now_or_never().is_none());
        for (number, size) in [(2, 4), (3, 2), (4, 1)] {
            let another = hold(&memory, number, size);
            another.arrived();
            std::mem::forget(another);
        }
        assert!(!is_evicted(&first));
        drop(first);
        assert_eq!(reserved.now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn received_bodies_of_one_address_do_not_wait_for_each_other() {
        let memory = BodyMemory::new(32);
        let first = hold(&memory, 1, 8);
        // The address now holds half of the memory.
        let second = hold(&memory, 1, 8);
        let waits: Vec<Reservation> = (0..8).map(|_| memory.enter(address(1))).collect();
        let mut waits: Vec<_> = waits.iter().map(|body| Box::pin(body.reserve(8))).collect();
        assert!(waits.iter_mut().all(|body| body.as_mut().now_or_never().is_none()));
        drop((first, second));
        let reserved = waits.iter_mut().filter_map(|body| body.as_mut().now_or_never()).count();
        assert_eq!(reserved, 2, "two bodies get all of their memory, and the others get none");
    }

    #[tokio::test]
    async fn large_body_does_not_block_small_ones() {
        let memory = BodyMemory::new(16);
        let held = hold(&memory, 1, 8);
        held.arrived();
        let (large, small) = (memory.enter(address(2)), memory.enter(address(3)));
        let mut large = Box::pin(large.reserve(8));
        assert!(large.as_mut().now_or_never().is_none());
        assert_eq!(small.reserve(1).now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn bodies_of_one_address_are_served_in_order() {
        let memory = BodyMemory::new(32);
        let held = hold(&memory, 1, 12);
        held.arrived();
        let (large, small) = (memory.enter(address(1)), memory.enter(address(1)));
        let (mut large, mut small) = (Box::pin(large.reserve(8)), Box::pin(small.reserve(1)));
        assert!(large.as_mut().now_or_never().is_none());
        assert!(small.as_mut().now_or_never().is_none(), "the large one waits for longer");
        drop(held);
        assert_eq!(large.now_or_never(), Some(()));
        assert_eq!(small.now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn body_that_cannot_get_room_delays_no_other() {
        let memory = BodyMemory::new(32);
        let (own, claim) = (hold(&memory, 1, 9), hold(&memory, 2, 8));
        own.arrived();
        let hopeless = memory.enter(address(3));
        let mut hopeless = Box::pin(hopeless.reserve(8));
        assert!(hopeless.as_mut().now_or_never().is_none() && !is_evicted(&claim));
        assert_eq!(memory.enter(address(1)).reserve(1).now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn address_that_would_hold_the_least_is_served_first() {
        let memory = BodyMemory::new(16);
        let (large, small) = (hold(&memory, 1, 8), hold(&memory, 2, 4));
        large.arrived();
        small.arrived();
        let (waits, newcomer) = (memory.enter(address(1)), memory.enter(address(3)));
        let (mut first, mut second) = (Box::pin(waits.reserve(4)), Box::pin(newcomer.reserve(3)));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(small);
        assert_eq!(second.now_or_never(), Some(()));
        assert!(first.as_mut().now_or_never().is_none());
    }

    #[tokio::test]
    async fn dropped_bodies_return_their_room() {
        let memory = BodyMemory::new(16);
        let held = hold(&memory, 1, 8);
        let other = memory.enter(address(2));
        // A request that timed out is dropped.
        assert!(other.reserve(8).now_or_never().is_none());
        drop(other);
        drop(held);
        let state = memory.0.lock();
        assert_eq!((state.free, state.bodies.len(), state.by_address.len()), (16, 0, 0));
    }
}
