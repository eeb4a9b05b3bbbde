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
	attributes.subresource in {"exec", "attach", "portforward"}
	attributes.verb in {"get", "create"}
}
