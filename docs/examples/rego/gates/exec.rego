# Denies commands in pods of system namespaces, and all other access to processes in these pods.
#
# The example for OPA's former kubernetes-policy-controller denies only the verb `create`. But `kubectl exec` sends a
# request with the verb `get`. Only since Kubernetes 1.35, the API server authorizes `create` as well.
package authorization

import rego.v1

import data.k8s.matches

deny contains {
	"id": "exec",
	"resource": {"kind": "pods", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("no %s in pods of %s", [attributes.subresource, namespace])},
} if {
	matches[["pods", namespace, name, review]]
	startswith(namespace, "kube-")
	attributes := review.spec.resourceAttributes
	is_door(attributes.subresource, attributes.verb)
}

is_door(subresource, verb) if {
	subresource in {"exec", "attach", "portforward", "proxy"}
	verb in {"get", "create"}
}

# `kubectl debug` adds ephemeral containers, which can run any command.
is_door("ephemeralcontainers", verb) if verb in {"patch", "update"}

# Users with access to the kubelet's API can run commands in all pods of the node.
deny contains {
	"id": "exec",
	"resource": {"kind": "nodes", "namespace": namespace, "name": name},
	"resolution": {"message": "no way to the kubelet: it runs commands in pods of the system"},
} if {
	matches[["nodes", namespace, name, review]]
	review.spec.resourceAttributes.subresource == "proxy"
}
