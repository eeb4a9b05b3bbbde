//! The kinds of routes.

use crate::locator::{GRPC_ROUTE, HTTP_ROUTE, KindRef, TCP_ROUTE, TLS_ROUTE, UDP_ROUTE};

/// The kinds of routes, in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteKind {
    /// GRPCRoute.
    Grpc,
    /// HTTPRoute.
    Http,
    /// TCPRoute.
    Tcp,
    /// TLSRoute.
    Tls,
    /// UDPRoute.
    Udp,
}

impl RouteKind {
    /// All kinds of routes.
    pub const ALL: [Self; 5] = [Self::Grpc, Self::Http, Self::Tcp, Self::Tls, Self::Udp];

    /// The group and the `kind` in objects.
    #[must_use]
    pub const fn kind(self) -> KindRef<'static> {
        match self {
            Self::Grpc => GRPC_ROUTE,
            Self::Http => HTTP_ROUTE,
            Self::Tcp => TCP_ROUTE,
            Self::Tls => TLS_ROUTE,
            Self::Udp => UDP_ROUTE,
        }
    }

    /// The type of nodes for rules of routes of this kind.
    #[must_use]
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Grpc => "GRPCRouteRule",
            Self::Http => "HTTPRouteRule",
            Self::Tcp => "TCPRouteRule",
            Self::Tls => "TLSRouteRule",
            Self::Udp => "UDPRouteRule",
        }
    }

    /// Returns the variant for `kind`; `None` if `kind` is not a kind of routes.
    #[must_use]
    pub fn named(kind: KindRef<'_>) -> Option<Self> {
        Self::ALL.into_iter().find(|route| route.kind() == kind)
    }
}
