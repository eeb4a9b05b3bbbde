//! Which evaluation is next: a decision over plain data, without a clock of its own.
//!
//! Tenants share evaluation time by start-time fair queueing (Goyal, Vin and Cheng, 1996): each evaluation is charged to its tenant,
//! and the tenant that was charged the least is next. A tenant that was idle starts at the present virtual time, so it neither saves up
//! nor owes what nobody else needed.
//!
//! Fair shares alone leave a tenant with short evaluations waiting for the end of a long one. So long ones leave slots free, and one
//! tenant has at most half of the slots for evaluations that are not known to be short.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::costs::{Cost, Costs};
use crate::api::tenant::Tenant;
use crate::in_turn::InTurn;
use crate::shrink::give_back;

/// How many evaluations may wait.
pub(super) const WAITING: usize = 256;
/// How many tenants without an evaluation are remembered, because they have used more than others.
pub(super) const IDLE: usize = 1_024;
/// What an evaluation is charged at its begin where it is not expected to be long.
const LEAST: Duration = Duration::from_millis(1);

/// Whose evaluation it is, and of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// Who is charged.
    pub tenant: Tenant,
    /// Who of the tenant asks; its members take turns.
    pub member: Arc<str>,
    /// What is evaluated, such as `ingresses.networking.k8s.io`: how long it takes is remembered by this.
    pub kind: Arc<str>,
}

/// An evaluation that runs.
#[derive(Debug)]
pub(super) struct Ticket {
    tenant: Tenant,
    kind: Arc<str>,
    cost: Cost,
    charged: Duration,
    began: Instant,
}

/// Evaluations that run and that wait; `T` is notified when one may begin.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    /// How many long ones may run at once. One more may where nothing is known of the tenant and its kind runs out of time for others,
    /// and another one where it is not expected to be long.
    slots: usize,
    running: usize,
    long: usize,
    doubtful: usize,
    waiting: usize,
    accounts: HashMap<Tenant, Account<T>>,
    /// The virtual time: what the tenant whose evaluation began last had been charged by then.
    time: Duration,
    /// The number of the next turn of a line.
    turn: u64,
    costs: Costs,
}

/// What a tenant has used, and what it waits for.
#[derive(Debug)]
struct Account<T> {
    charged: Duration,
    running: usize,
    /// Those that run and are not known to be short.
    unproven: usize,
    waiting: usize,
    lines: BTreeMap<Arc<str>, Line<T>>,
}

/// A tenant's evaluations of one kind that wait, by member.
#[derive(Debug)]
struct Line<T> {
    turn: u64,
    waiting: InTurn<T>,
}

impl<T> Default for Account<T> {
    fn default() -> Self {
        let (charged, running, unproven, waiting, lines) = Default::default();
        Self { charged, running, unproven, waiting, lines }
    }
}

impl<T> Account<T> {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting == 0
    }

    /// Takes the newest evaluation of its longest line out.
    fn pop_newest(&mut self) -> Option<T> {
        let size = |line: &Line<T>| line.waiting.largest().map_or(0, |(_, size)| size);
        let kind = self.lines.iter().max_by_key(|(_, line)| size(line)).map(|(kind, _)| kind.clone())?;
        let line = self.lines.get_mut(&kind)?;
        let (member, _) = line.waiting.largest()?;
        let newest = line.waiting.pop_newest(&member);
        if line.waiting.largest().is_none() {
            self.lines.remove(&kind);
        }
        self.waiting -= usize::from(newest.is_some());
        newest
    }
}

impl<T> Schedule<T> {
    /// One with this number of slots, and two more for evaluations that are not known to be long.
    pub(super) fn new(slots: usize) -> Self {
        let (accounts, costs) = (HashMap::new(), Costs::default());
        let (running, long, doubtful, waiting, time, turn) = Default::default();
        Self { slots: slots.max(1), running, long, doubtful, waiting, accounts, time, turn, costs }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Has `waiter` wait for an evaluation. Where too many wait, the newest of the tenant with the most is dropped; where that is this
    /// one, `waiter` is returned.
    ///
    /// # Errors
    ///
    /// `waiter`, where too many wait.
    pub(super) fn push(&mut self, requester: Requester, waiter: T) -> Result<(), T> {
        if self.waiting >= WAITING && !self.makes_room(&requester.tenant) {
            return Err(waiter);
        }
        let (time, turn) = (self.time, self.next_turn());
        let account = self.accounts.entry(requester.tenant).or_default();
        if account.waiting == 0 {
            account.charged = account.charged.max(time);
        }
        account.waiting += 1;
        self.waiting += 1;
        let line =
            account.lines.entry(requester.kind).or_insert_with(|| Line { turn, waiting: InTurn::default() });
        line.waiting.push(requester.member, waiter);
        Ok(())
    }

    /// The evaluation that may begin now, if any.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Ticket, T)> {
        if self.running >= self.slots + 2 {
            return None;
        }
        let candidates = self.accounts.iter().flat_map(|(tenant, account)| {
            account.lines.iter().map(move |(kind, line)| (tenant, account, kind, line))
        });
        let best = candidates.filter_map(|(tenant, account, kind, line)| {
            let cost = self.costs.of(tenant, kind, now);
            let rank = (account.charged, matches!(cost, Cost::Long(_)), line.turn);
            self.may_begin(account, cost).then_some((rank, tenant, kind, cost))
        });
        let (_, tenant, kind, cost) = best.min_by_key(|(rank, ..)| *rank)?;
        let (tenant, kind) = (tenant.clone(), kind.clone());
        let turn = self.next_turn();
        let account = self.accounts.get_mut(&tenant)?;
        let line = account.lines.get_mut(&kind)?;
        let waiter = line.waiting.pop()?;
        line.turn = turn;
        if line.waiting.largest().is_none() {
            account.lines.remove(&kind);
        }
        account.waiting -= 1;
        account.running += 1;
        account.unproven += usize::from(cost != Cost::Short);
        self.time = self.time.max(account.charged);
        let charged = if let Cost::Long(expected) = cost { expected } else { LEAST };
        account.charged += charged;
        self.waiting -= 1;
        self.running += 1;
        self.long += usize::from(matches!(cost, Cost::Long(_)));
        self.doubtful += usize::from(cost == Cost::Doubtful);
        Some((Ticket { tenant, kind, cost, charged, began: now }, waiter))
    }

    /// Whether a tenant may have another evaluation of this `cost` begin, as far as slots go.
    fn may_begin(&self, account: &Account<T>, cost: Cost) -> bool {
        let is_left = self.long + self.doubtful <= self.slots;
        let has_slot = match cost {
            Cost::Long(_) => self.long < self.slots && is_left,
            Cost::Doubtful => is_left,
            Cost::Unknown | Cost::Short => true,
        };
        has_slot
            && account.running < self.slots
            && (cost == Cost::Short || account.unproven < (self.slots / 2).max(1))
    }

    /// Ends an evaluation. `ran_out` is whether it ran out of time, and `None` where it was given up.
    pub(super) fn end(&mut self, ticket: &Ticket, ran_out: Option<bool>, now: Instant) {
        let took = now.saturating_duration_since(ticket.began);
        if let Some(ran_out) = ran_out {
            self.costs.noted(&ticket.tenant, &ticket.kind, took, ran_out, now);
        }
        self.running -= 1;
        self.long -= usize::from(matches!(ticket.cost, Cost::Long(_)));
        self.doubtful -= usize::from(ticket.cost == Cost::Doubtful);
        if let Some(account) = self.accounts.get_mut(&ticket.tenant) {
            account.running -= 1;
            account.unproven -= usize::from(ticket.cost != Cost::Short);
            account.charged = account.charged.saturating_sub(ticket.charged) + took;
        }
        self.forget();
    }

    /// Forgets tenants that have nothing to do and owe nothing; of the others those that owe the least, where they are many.
    fn forget(&mut self) {
        let time = self.time;
        self.accounts.retain(|_, account| !account.is_idle() || account.charged > time);
        let mut idle: Vec<Duration> = self
            .accounts
            .values()
            .filter(|account| account.is_idle())
            .map(|account| account.charged)
            .collect();
        if idle.len() > IDLE {
            let (_, middle, _) = idle.select_nth_unstable(IDLE / 2);
            let middle = *middle;
            self.accounts.retain(|_, account| !account.is_idle() || account.charged > middle);
        }
        give_back(&mut self.accounts);
    }

    /// Drops the waiters of which `stays` says no.
    pub(super) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        for account in self.accounts.values_mut() {
            let mut gone = 0;
            account.lines.retain(|_, line| {
                gone += line.waiting.retain(&stays);
                line.waiting.largest().is_some()
            });
            account.waiting -= gone;
            self.waiting -= gone;
        }
        self.forget();
    }

    /// Drops the newest waiter of the tenant that has most, where it has more than `tenant` would have. A tenant that has none yet also
    /// goes before one that has been charged more.
    fn makes_room(&mut self, tenant: &Tenant) -> bool {
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

    /// How many tenants are remembered.
    #[cfg(test)]
    pub(super) fn tenants(&self) -> usize {
        self.accounts.len()
    }
}

#[cfg(test)]
mod tests;
