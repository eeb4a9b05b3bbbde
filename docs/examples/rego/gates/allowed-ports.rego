# Services have the ports for which the network is open, and none on nodes.
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
	"resolution": {"message": "nodes have no ports for it: let its type be ClusterIP"},
} if {
	matches[["services", namespace, name, service]]
	service.spec.type == "NodePort"
}
