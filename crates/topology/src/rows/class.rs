//! GatewayClasses.

/// A GatewayClass. That it is there is all that the graph reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class;
