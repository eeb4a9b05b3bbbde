//! Policy Sync.
