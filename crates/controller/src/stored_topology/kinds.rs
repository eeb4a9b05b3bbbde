//! The registry of watched kinds, in addition to the kinds of the sync.

use super::gateway_status::GatewayStatus;
use super::rows::{
    ExperimentalSets, GrpcRoutes, HttpRoutes, Parsed, RouteRow, StoredConfigMap, TcpRoutes, TlsRoutes,
    UdpRoutes,
};
use policy_sync_api::gateway::GROUP;
use policy_sync_api::names::{GroupResource, ObjectKey};
use policy_sync_mirror::{Family, Kind, Source};
use policy_sync_topology::rows::{BackendKind, Grant, ListenerSet, Namespace, RouteKind, Service, SetKind};

/// GRPCRoutes. All routes are watched in a version that the hub serves.
pub static GRPC_ROUTES: Family<RouteRow<GrpcRoutes>> = Family::new("grpcroutes");
/// HTTPRoutes.
pub static HTTP_ROUTES: Family<RouteRow<HttpRoutes>> = Family::new("httproutes");
/// TCPRoutes.
pub static TCP_ROUTES: Family<RouteRow<TcpRoutes>> = Family::new("tcproutes");
/// TLSRoutes.
pub static TLS_ROUTES: Family<RouteRow<TlsRoutes>> = Family::new("tlsroutes");
/// UDPRoutes.
pub static UDP_ROUTES: Family<RouteRow<UdpRoutes>> = Family::new("udproutes");
/// ListenerSets.
pub static LISTENER_SETS: Family<Parsed<ListenerSet>> = Family::new("listenersets");
/// XListenerSets.
pub static X_LISTENER_SETS: Family<Parsed<ListenerSet>> =
    Family::pruned_by::<ExperimentalSets>("xlistenersets");
/// ReferenceGrants. Watched only while an object refers to another namespace.
pub static GRANTS: Family<Parsed<Grant>> = Family::new("referencegrants");
/// Services. Watched only while an object refers to a Service.
pub static SERVICES: Kind<Parsed<Service>> = Kind::new("", "v1", "services");
/// ServiceImports. Watched only while a route refers to a ServiceImport.
pub static SERVICE_IMPORTS: Family<Parsed<Service>> = Family::new("serviceimports");
/// Backends of Envoy Gateway. Watched only while a route refers to a Backend.
pub static ENVOY_BACKENDS: Family<Parsed<Service>> = Family::new("backends");
/// Namespaces. Watched only while a listener selects Namespaces by labels.
pub static NAMESPACES: Family<Parsed<Namespace>> = Family::new("namespaces").of_metadata();
/// Gateways, for the conditions that name the policies affecting them.
pub static GATEWAYS: Kind<GatewayStatus> = Kind::new(GROUP, "v1", "gateways");
/// The ConfigMap with the stored topology.
pub static CONFIG_MAPS: Kind<StoredConfigMap> = Kind::new("", "v1", "configmaps");

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

/// All routes of `kind`.
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

/// All ListenerSets of `kind`.
pub fn sets(kind: SetKind) -> Source {
    match kind {
        SetKind::Standard => LISTENER_SETS.resource(of_gateway_api("listenersets")),
        SetKind::Experimental => {
            X_LISTENER_SETS.resource(GroupResource::new(kind.kind().group, "xlistenersets"))
        }
    }
}

/// All backends of `kind`.
pub fn backends(kind: BackendKind) -> Source {
    let group = kind.kind().group;
    match kind {
        BackendKind::Service => SERVICES.all(),
        BackendKind::ServiceImport => SERVICE_IMPORTS.resource(GroupResource::new(group, "serviceimports")),
        BackendKind::EnvoyBackend => ENVOY_BACKENDS.resource(GroupResource::new(group, "backends")),
    }
}

/// All ReferenceGrants.
pub fn grants() -> Source {
    GRANTS.resource(GroupResource::reference_grants())
}

/// All Namespaces.
pub fn namespaces() -> Source {
    NAMESPACES.resource(GroupResource::namespaces())
}

/// The ConfigMap `key`.
pub fn config_map(key: &ObjectKey) -> Source {
    CONFIG_MAPS.object(key.clone())
}

/// The kinds to look up by API discovery, because not every hub serves them. Each is `<plural>.<group>`.
pub fn plurals() -> impl Iterator<Item = String> {
    let routes = RouteKind::ALL.map(|kind| routes(kind).to_string());
    let sets = SetKind::ALL.map(sets);
    let backends = [BackendKind::ServiceImport, BackendKind::EnvoyBackend].map(backends);
    let sources = sets.into_iter().chain(backends);
    let others = sources.filter_map(|source| source.resource().map(ToString::to_string));
    routes.into_iter().chain(others).chain([GroupResource::reference_grants().to_string()])
}
