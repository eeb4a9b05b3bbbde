# Denies an Ingress with a host that another Ingress already has.
package admission

import rego.v1

import data.k8s.matches

deny contains {
	"id": "ingress-conflict",
	"resource": {"kind": "ingresses", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("host %s is taken by Ingress %s/%s", [host, other_namespace, other_name])},
} if {
	matches[["ingresses", namespace, name, ingress]]
	matches[["ingresses", other_namespace, other_name, other]]
	[namespace, name] != [other_namespace, other_name]
	host := ingress.spec.rules[_].host
	host == other.spec.rules[_].host
}
