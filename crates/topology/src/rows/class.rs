//! GatewayClasses.

/// A GatewayClass. The graph reads only that it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class;
