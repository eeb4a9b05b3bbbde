//! The registry: what is watched beside what the sync watches.

use super::gateway_status::GatewayStatus;
use super::rows::{OfGrpc, OfHttp, OfTcp, OfTls, OfUdp, Read, RouteRow, StoredText};
use crate::api::gateway::GROUP;
use crate::api::names::{GroupResource, ObjectKey};
use crate::hub::{Family, Kind, Source};
use crate::topology::rows::{Grant, ListenerSet, Namespace, RouteKind, Service};

/// GRPCRoutes, in the version that the hub serves, as the others.
pub static GRPC_ROUTES: Family<RouteRow<OfGrpc>> = Family::new("grpcroutes");
/// HTTPRoutes.
pub static HTTP_ROUTES: Family<RouteRow<OfHttp>> = Family::new("httproutes");
/// TCPRoutes.
pub static TCP_ROUTES: Family<RouteRow<OfTcp>> = Family::new("tcproutes");
/// TLSRoutes.
pub static TLS_ROUTES: Family<RouteRow<OfTls>> = Family::new("tlsroutes");
/// UDPRoutes.
pub static UDP_ROUTES: Family<RouteRow<OfUdp>> = Family::new("udproutes");
/// ListenerSets.
pub static SETS: Family<Read<ListenerSet>> = Family::new("listenersets");
/// ReferenceGrants, while something refers to another namespace.
pub static GRANTS: Family<Read<Grant>> = Family::new("referencegrants");
/// Services, while something refers to one.
pub static SERVICES: Kind<Read<Service>> = Kind::new("", "v1", "services");
/// Namespaces, while a listener chooses by their labels.
pub static NAMESPACES: Family<Read<Namespace>> = Family::new("namespaces").of_metadata();
/// Gateways, as they say which policies affect them.
pub static GATEWAYS: Kind<GatewayStatus> = Kind::new(GROUP, "v1", "gateways");
/// The ConfigMap.
pub static CONFIG_MAPS: Kind<StoredText> = Kind::new("", "v1", "configmaps");

fn of_gateway_api(plural: &str) -> GroupResource {
    GroupResource::new(GROUP, plural)
}

/// The resource of the routes of `kind`.
pub fn routes(kind: RouteKind) -> GroupResource {
    of_gateway_api(match kind {
        RouteKind::Grpc => "grpcroutes",
        RouteKind::Http => "httproutes",
        RouteKind::Tcp => "tcproutes",
        RouteKind::Tls => "tlsroutes",
        RouteKind::Udp => "udproutes",
    })
}

/// The routes of `kind`.
pub fn source(kind: RouteKind) -> Source {
    let resource = routes(kind);
    match kind {
        RouteKind::Grpc => GRPC_ROUTES.resource(resource),
        RouteKind::Http => HTTP_ROUTES.resource(resource),
        RouteKind::Tcp => TCP_ROUTES.resource(resource),
        RouteKind::Tls => TLS_ROUTES.resource(resource),
        RouteKind::Udp => UDP_ROUTES.resource(resource),
    }
}

/// ListenerSets.
pub fn sets() -> Source {
    SETS.resource(of_gateway_api("listenersets"))
}

/// ReferenceGrants.
pub fn grants() -> Source {
    GRANTS.resource(GroupResource::reference_grants())
}

/// Namespaces.
pub fn namespaces() -> Source {
    NAMESPACES.resource(GroupResource::namespaces())
}

/// The ConfigMap `key`.
pub fn config_map(key: &ObjectKey) -> Source {
    CONFIG_MAPS.object(key.clone())
}

/// What is looked up, as kinds that not every hub serves: each by its plural and its group.
pub fn plurals() -> impl Iterator<Item = String> {
    let routes = RouteKind::ALL.map(|kind| routes(kind).to_string());
    routes
        .into_iter()
        .chain([of_gateway_api("listenersets").to_string(), GroupResource::reference_grants().to_string()])
}
