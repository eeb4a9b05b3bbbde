# Limits a namespace to two load balancers. The reviewed Service counts once, even if it exists already.
package admission

import rego.v1

import data.k8s.matches

deny contains {
	"id": "load-balancers",
	"resource": {"kind": "services", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("%s would have %d load balancers, 2 are allowed", [namespace, found])},
} if {
	matches[["services", namespace, name, service]]
	service.spec.type == "LoadBalancer"
	found := count([1 | some other in data.kubernetes.services[namespace]; other.spec.type == "LoadBalancer"])
	found > 2
}
