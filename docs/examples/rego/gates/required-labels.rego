# Requires labels for the team and the cost center of a Namespace.
#
# Namespaces are cluster-scoped, so `namespace` is `""`. `object.get` returns `""` for a missing label. Without it, the
# comparison would be undefined, and the rule would deny nothing.
package admission

import rego.v1

import data.k8s.matches

deny contains {
	"id": "required-labels",
	"resource": {"kind": "namespaces", "namespace": "", "name": name},
	"resolution": {"message": sprintf("label %s is missing", [label])},
} if {
	matches[["namespaces", "", name, namespace]]
	some label in ["team", "cost-center"]
	object.get(namespace.metadata, ["labels", label], "") == ""
}
