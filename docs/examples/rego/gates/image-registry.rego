# Allows images from certain registries only.
#
# Each registry ends with `/`, so that `registry.example.com.elsewhere.example/x` is denied. `kubectl debug` adds
# containers to a running Pod through a subresource, which only the package `authorization` can deny.
package admission

import rego.v1

import data.k8s.matches

deny contains {
	"id": "image-registry",
	"resource": {"kind": "pods", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("image %s of container %s comes from nowhere that is allowed", [container.image, container.name])},
} if {
	matches[["pods", namespace, name, pod]]
	some kind in ["containers", "initContainers", "ephemeralContainers"]
	some container in pod.spec[kind]
	not is_allowed_image(container.image)
}

deny contains {
	"id": "image-registry",
	"resource": {"kind": "pods", "namespace": namespace, "name": name},
	"resolution": {"message": sprintf("image %s of volume %s comes from nowhere that is allowed", [reference, volume.name])},
} if {
	matches[["pods", namespace, name, pod]]
	some volume in pod.spec.volumes
	reference := volume.image.reference
	not is_allowed_image(reference)
}

is_allowed_image(image) if {
	some registry in ["registry.example.com/", "ghcr.io/example/"]
	startswith(image, registry)
}
