# Images are pulled each time, so that nobody runs one that they may not pull: what says otherwise is mended.
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
