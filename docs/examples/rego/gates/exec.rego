# Nobody runs commands in pods of the system's namespaces, or gets into them by another door.
#
# The policy of the first controllers for Kubernetes names `create` alone, and does not import `matches`. A command over a websocket,
# as kubectl runs it, asks to `get`, and before Kubernetes 1.35 for nothing else.
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

# What `kubectl debug` adds to a pod runs whatever it is told to.
is_door("ephemeralcontainers", verb) if verb in {"patch", "update"}

# The kubelet runs commands in all pods of a node.
deny contains {
	"id": "exec",
	"resource": {"kind": "nodes", "namespace": namespace, "name": name},
	"resolution": {"message": "no way to the kubelet: it runs commands in pods of the system"},
} if {
	matches[["nodes", namespace, name, review]]
	review.spec.resourceAttributes.subresource == "proxy"
}
