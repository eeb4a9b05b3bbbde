# An Ingress takes hosts that its Namespace may have: those of the annotation `ingress-allowlist`, with commas between. `*.` and a domain
# stands for whatever is below it.
#
# The policy that this one follows asks about the hosts of rules alone: a rule without one, and a default backend, take all hosts. Its
# pattern lets the dots of a domain be any character, and what follows it be anything.
package admission

import rego.v1

import data.k8s.matches

deny contains {
	"id": "ingress-host-fqdn",
	"resource": {"kind": "ingresses", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("%s may not have %s", [namespace, host])},
} if {
	matches[["ingresses", namespace, name, ingress]]
	some host in wanted_hosts(ingress)
	not may_have(namespace, host)
}

wanted_hosts(ingress) := {object.get(rule, "host", every_host) | some rule in ingress.spec.rules} | {every_host |
	ingress.spec.defaultBackend
}

every_host := "every host"

may_have(namespace, host) if {
	some allowed in allowed_hosts(namespace)
	allowed == host
}

may_have(namespace, host) if {
	some allowed in allowed_hosts(namespace)
	startswith(allowed, "*.")
	endswith(host, substring(allowed, 1, -1))
}

allowed_hosts(namespace) := {trim_space(host) |
	some host in split(data.kubernetes.namespaces[namespace].metadata.annotations["ingress-allowlist"], ",")
}
