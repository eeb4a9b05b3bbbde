# Sets `imagePullPolicy: Always`, so that no Pod runs a cached image that its namespace may not pull.
package admission

import rego.v1

import data.k8s.matches

deny contains {
	"id": "image-pull-policy",
	"resource": {"kind": "pods", "namespace": namespace, "name": name},
	"resolution": {
		"message": "images are pulled each time",
		"patches": [{
			"op": "replace",
			"path": sprintf("/spec/containers/%d/imagePullPolicy", [number]),
			"value": "Always",
		}],
	},
} if {
	matches[["pods", namespace, name, pod]]
	some number, container in pod.spec.containers
	container.imagePullPolicy != "Always"
}
