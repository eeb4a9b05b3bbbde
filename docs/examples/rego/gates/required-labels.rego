# Namespaces say whose they are, and who pays for them.
#
# Their place is `""`: they are in no namespace. A policy that leaves the namespace free there, or that compares a label that is not
# there, lets every Namespace pass.
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
