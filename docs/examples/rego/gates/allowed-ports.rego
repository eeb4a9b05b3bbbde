# Allows certain ports in Services, and no ports on nodes.
package admission

import rego.v1

import data.k8s.matches

allowed_ports := {80, 443, 8080, 8443}

deny contains {
	"id": "allowed-ports",
	"resource": {"kind": "services", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("port %d is not one of %v", [port, allowed_ports])},
} if {
	matches[["services", namespace, name, service]]
	port := service.spec.ports[_].port
	not port in allowed_ports
}

deny contains {
	"id": "allowed-ports",
	"resource": {"kind": "services", "namespace": namespace, "name": name},
	"resolution": {"message": "nodes open no ports for it"},
} if {
	matches[["services", namespace, name, service]]
	opens_ports_of_nodes(service.spec)
}

opens_ports_of_nodes(spec) if spec.type == "NodePort"

opens_ports_of_nodes(spec) if count(spec.externalIPs) > 0

# A load balancer has ports on nodes unless `allocateLoadBalancerNodePorts` is false.
opens_ports_of_nodes(spec) if {
	spec.type == "LoadBalancer"
	object.get(spec, "allocateLoadBalancerNodePorts", true)
}
