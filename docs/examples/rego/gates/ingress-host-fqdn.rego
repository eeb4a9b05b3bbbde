# Allows only the hosts in the Namespace's annotation `ingress-allowlist`, a comma-separated list. The entry
# `*.example.com` allows all subdomains of `example.com`.
#
# OPA's original policy checks only the hosts in rules, although a rule without a host, and a default backend, receive
# requests for all hosts. Its regular expressions match any character for a dot, and any text after the domain.
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
