//! What the controller says about itself: logs and metrics.

pub mod logs;
pub mod metrics;
