//! A hub and spokes on one machine.
