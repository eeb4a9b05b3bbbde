//! The registry: what is watched beside what the sync watches.

use super::gateway_status::GatewayStatus;
use super::rows::{ExperimentalSets, OfGrpc, OfHttp, OfTcp, OfTls, OfUdp, Read, RouteRow, StoredText};
use policy_sync_api::gateway::GROUP;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_mirror::{Family, Kind, Source};
use policy_sync_topology::rows::{BackendKind, Grant, ListenerSet, Namespace, RouteKind, Service, SetKind};

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
/// XListenerSets.
pub static X_SETS: Family<Read<ListenerSet>> = Family::pruned_by::<ExperimentalSets>("xlistenersets");
/// ReferenceGrants, while something refers to another namespace.
pub static GRANTS: Family<Read<Grant>> = Family::new("referencegrants");
/// Services, while something refers to one.
pub static SERVICES: Kind<Read<Service>> = Kind::new("", "v1", "services");
/// ServiceImports, while a route refers to one.
pub static SERVICE_IMPORTS: Family<Read<Service>> = Family::new("serviceimports");
/// Backends of Envoy Gateway, while a route refers to one.
pub static ENVOY_BACKENDS: Family<Read<Service>> = Family::new("backends");
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

/// The ListenerSets of `kind`.
pub fn sets(kind: SetKind) -> Source {
    match kind {
        SetKind::Standard => SETS.resource(of_gateway_api("listenersets")),
        SetKind::Experimental => X_SETS.resource(GroupResource::new(kind.kind().group, "xlistenersets")),
    }
}

/// The backends of `kind`.
pub fn backends(kind: BackendKind) -> Source {
    let group = kind.kind().group;
    match kind {
        BackendKind::Service => SERVICES.all(),
        BackendKind::ServiceImport => SERVICE_IMPORTS.resource(GroupResource::new(group, "serviceimports")),
        BackendKind::EnvoyBackend => ENVOY_BACKENDS.resource(GroupResource::new(group, "backends")),
    }
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
    let sets = SetKind::ALL.map(sets);
    let backends = [BackendKind::ServiceImport, BackendKind::EnvoyBackend].map(backends);
    let sources = sets.into_iter().chain(backends);
    let others = sources.filter_map(|source| source.resource().map(ToString::to_string));
    routes.into_iter().chain(others).chain([GroupResource::reference_grants().to_string()])
}
