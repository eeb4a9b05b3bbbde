//! Decides which evaluation runs next, from plain data and a time given by the caller.
//!
//! Tenants share evaluation time by start-time fair queueing (Goyal, Vin and Cheng, 1996). Each evaluation is charged
//! to its tenant, and the tenant with the smallest charge is next. A tenant that was idle starts at the present virtual
//! time. So an idle tenant does not accumulate credit, and does not pay for unused time.
//!
//! With fair shares alone, a tenant with short evaluations would wait for the end of a long evaluation. Therefore, long
//! evaluations leave some slots free. One tenant has at most half of the slots for evaluations that are not known to be
//! short.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::costs::{Cost, CostHistory};
use policy_sync_api::fair_queue::FairQueue;
use policy_sync_api::shrink::shrink_if_sparse;
use policy_sync_api::tenant::Tenant;

/// The maximum number of waiting evaluations.
pub(super) const MAX_WAITING: usize = 256;
/// The maximum number of remembered idle tenants. A tenant without evaluations is remembered while its charge exceeds
/// the virtual time.
pub(super) const MAX_IDLE_TENANTS: usize = 1_024;
/// The initial charge for an evaluation that is not expected to be long.
const MIN_CHARGE: Duration = Duration::from_millis(1);

/// The tenant, the member and the kind of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The tenant to charge.
    pub tenant: Tenant,
    /// A subdivision of the tenant: a user or a namespace. The members of a tenant take turns.
    pub member: Arc<str>,
    /// The evaluated kind, such as `ingresses.networking.k8s.io`. Durations are recorded by tenant and kind.
    pub kind: Arc<str>,
}

/// A running evaluation.
#[derive(Debug)]
pub(super) struct Ticket {
    tenant: Tenant,
    kind: Arc<str>,
    cost: Cost,
    charged: Duration,
    began: Instant,
}

/// Running and waiting evaluations. The caller notifies `T` when its evaluation may begin.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    /// The maximum number of long evaluations at once. One more slot is for an evaluation that [may time
    /// out](Cost::LikelyTimeout), and another one for evaluations that are not expected to be long.
    slots: usize,
    running: usize,
    long: usize,
    likely_timeouts: usize,
    waiting: usize,
    accounts: HashMap<Tenant, Account<T>>,
    /// The virtual time: the largest charge that any tenant had when one of its evaluations began.
    time: Duration,
    /// A counter for the order in which the queues of a tenant take turns.
    turn: u64,
    costs: CostHistory,
}

/// The charges, running and waiting evaluations of a tenant.
#[derive(Debug)]
struct Account<T> {
    charged: Duration,
    running: usize,
    /// The number of running evaluations that are not known to be short.
    unproven: usize,
    waiting: usize,
    queues: BTreeMap<Arc<str>, KindQueue<T>>,
}

/// The waiting evaluations of one tenant and one kind, by member.
#[derive(Debug)]
struct KindQueue<T> {
    turn: u64,
    waiting: FairQueue<T>,
}

impl<T> Default for Account<T> {
    fn default() -> Self {
        let (charged, running, unproven, waiting, queues) = Default::default();
        Self { charged, running, unproven, waiting, queues }
    }
}

impl<T> Account<T> {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting == 0
    }

    /// Removes the newest evaluation of the member with the most waiting evaluations of one kind.
    fn pop_newest(&mut self) -> Option<T> {
        let size = |queue: &KindQueue<T>| queue.waiting.largest().map_or(0, |(_, size)| size);
        let kind = self.queues.iter().max_by_key(|(_, queue)| size(queue)).map(|(kind, _)| kind.clone())?;
        let queue = self.queues.get_mut(&kind)?;
        let (member, _) = queue.waiting.largest()?;
        let newest = queue.waiting.pop_newest(&member);
        if queue.waiting.largest().is_none() {
            self.queues.remove(&kind);
        }
        self.waiting -= usize::from(newest.is_some());
        newest
    }
}

impl<T> Schedule<T> {
    /// Creates a schedule with `slots` slots, and two more for evaluations that are not known to be long.
    pub(super) fn new(slots: usize) -> Self {
        let (accounts, costs) = (HashMap::new(), CostHistory::default());
        let (running, long, likely_timeouts, waiting, time, turn) = Default::default();
        Self { slots: slots.max(1), running, long, likely_timeouts, waiting, accounts, time, turn, costs }
    }

    /// The number of waiting evaluations.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds `waiter` to the queue. If the queue is full, drops the newest evaluation of the tenant with the most
    /// waiting evaluations.
    ///
    /// # Errors
    ///
    /// Returns `waiter` if the queue is full and the tenant of `waiter` cannot displace another waiter.
    pub(super) fn push(&mut self, requester: Requester, waiter: T) -> Result<(), T> {
        if self.waiting >= MAX_WAITING && !self.evict_waiter(&requester.tenant) {
            return Err(waiter);
        }
        let (time, turn) = (self.time, self.next_turn());
        let account = self.accounts.entry(requester.tenant).or_default();
        if account.waiting == 0 {
            account.charged = account.charged.max(time);
        }
        account.waiting += 1;
        self.waiting += 1;
        let queue = account
            .queues
            .entry(requester.kind)
            .or_insert_with(|| KindQueue { turn, waiting: FairQueue::default() });
        queue.waiting.push(requester.member, waiter);
        Ok(())
    }

    /// Removes and returns the next evaluation that may begin, if any.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Ticket, T)> {
        if self.running >= self.slots + 2 {
            return None;
        }
        let candidates = self.accounts.iter().flat_map(|(tenant, account)| {
            account.queues.iter().map(move |(kind, queue)| (tenant, account, kind, queue))
        });
        let best = candidates.filter_map(|(tenant, account, kind, queue)| {
            let cost = self.costs.of(tenant, kind, now);
            let rank = (account.charged, matches!(cost, Cost::Long(_)), queue.turn);
            self.may_begin(account, cost).then_some((rank, tenant, kind, cost))
        });
        let (_, tenant, kind, cost) = best.min_by_key(|(rank, ..)| *rank)?;
        let (tenant, kind) = (tenant.clone(), kind.clone());
        let turn = self.next_turn();
        let account = self.accounts.get_mut(&tenant)?;
        let queue = account.queues.get_mut(&kind)?;
        let waiter = queue.waiting.pop()?;
        queue.turn = turn;
        if queue.waiting.largest().is_none() {
            account.queues.remove(&kind);
        }
        account.waiting -= 1;
        account.running += 1;
        account.unproven += usize::from(cost != Cost::Short);
        self.time = self.time.max(account.charged);
        let charged = if let Cost::Long(expected) = cost { expected } else { MIN_CHARGE };
        account.charged += charged;
        self.waiting -= 1;
        self.running += 1;
        self.long += usize::from(matches!(cost, Cost::Long(_)));
        self.likely_timeouts += usize::from(cost == Cost::LikelyTimeout);
        Some((Ticket { tenant, kind, cost, charged, began: now }, waiter))
    }

    /// Whether the free slots allow a tenant another evaluation with this `cost`.
    fn may_begin(&self, account: &Account<T>, cost: Cost) -> bool {
        let is_left = self.long + self.likely_timeouts <= self.slots;
        let has_slot = match cost {
            Cost::Long(_) => self.long < self.slots && is_left,
            Cost::LikelyTimeout => is_left,
            Cost::Unknown | Cost::Short => true,
        };
        has_slot
            && account.running < self.slots
            && (cost == Cost::Short || account.unproven < (self.slots / 2).max(1))
    }

    /// Ends an evaluation. `timed_out` states whether the evaluation ran out of time, or is `None` if the evaluation
    /// was aborted.
    pub(super) fn end(&mut self, ticket: &Ticket, timed_out: Option<bool>, now: Instant) {
        let took = now.saturating_duration_since(ticket.began);
        if let Some(timed_out) = timed_out {
            self.costs.record(&ticket.tenant, &ticket.kind, took, timed_out, now);
        }
        self.running -= 1;
        self.long -= usize::from(matches!(ticket.cost, Cost::Long(_)));
        self.likely_timeouts -= usize::from(ticket.cost == Cost::LikelyTimeout);
        if let Some(account) = self.accounts.get_mut(&ticket.tenant) {
            account.running -= 1;
            account.unproven -= usize::from(ticket.cost != Cost::Short);
            account.charged = account.charged.saturating_sub(ticket.charged) + took;
        }
        self.forget();
    }

    /// Removes idle tenants whose charge does not exceed the virtual time. If more than [`MAX_IDLE_TENANTS`] idle
    /// tenants remain, also removes those with the smallest charges.
    fn forget(&mut self) {
        let time = self.time;
        self.accounts.retain(|_, account| !account.is_idle() || account.charged > time);
        let mut idle: Vec<Duration> = self
            .accounts
            .values()
            .filter(|account| account.is_idle())
            .map(|account| account.charged)
            .collect();
        if idle.len() > MAX_IDLE_TENANTS {
            let (_, middle, _) = idle.select_nth_unstable(MAX_IDLE_TENANTS / 2);
            let middle = *middle;
            self.accounts.retain(|_, account| !account.is_idle() || account.charged > middle);
        }
        shrink_if_sparse(&mut self.accounts);
    }

    /// Drops each waiter for which `stays` returns false.
    pub(super) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        for account in self.accounts.values_mut() {
            let mut gone = 0;
            account.queues.retain(|_, queue| {
                gone += queue.waiting.retain(&stays);
                queue.waiting.largest().is_some()
            });
            account.waiting -= gone;
            self.waiting -= gone;
        }
        self.forget();
    }

    /// Drops the newest waiter of the tenant with the most waiters, so that `tenant` can add a waiter. Drops a waiter
    /// only if the other tenant then still has at least as many waiters as `tenant`, or if `tenant` has no waiters and
    /// a lower charge. Returns whether a waiter was dropped.
    fn evict_waiter(&mut self, tenant: &Tenant) -> bool {
        let own = self.accounts.get(tenant);
        let (own, own_charged) = own.map_or((0, self.time), |account| (account.waiting, account.charged));
        let waiting = self.accounts.iter_mut().filter(|(_, account)| account.waiting > 0);
        let Some((_, most)) = waiting.max_by_key(|(_, account)| (account.waiting, account.charged)) else {
            return false;
        };
        let gives_way = most.waiting > own + 1 || (own == 0 && most.charged > own_charged.max(self.time));
        let dropped = gives_way && most.pop_newest().is_some();
        self.waiting -= usize::from(dropped);
        dropped
    }

    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// The number of remembered tenants.
    #[cfg(test)]
    pub(super) fn tenants(&self) -> usize {
        self.accounts.len()
    }
}

#[cfg(test)]
mod tests;
