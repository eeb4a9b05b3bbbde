package admission_test

import rego.v1

import data.admission

refused_images(spec) := {denial.resolution.message |
	some denial in admission.deny with input as {"reviewed": ["pods", "shop", "web", {"spec": spec}]}
	denial.id == "image-registry"
}

of_image(kind, image) := {kind: [{"name": "c", "image": image}]}

test_images_of_the_registries_pass if refused_images(of_image("containers", "registry.example.com/web:1")) == set()

test_others_are_refused_in_all_containers if {
	every kind in ["containers", "initContainers", "ephemeralContainers"] {
		refused_images(of_image(kind, "nginx")) == {"image nginx of container c comes from nowhere that is allowed"}
	}
	count(refused_images(of_image("containers", "registry.example.com.elsewhere.example/web:1"))) == 1
	count(refused_images(of_image("containers", "ghcr.io/examples/web:1"))) == 1
	count(refused_images({"volumes": [{"name": "v", "image": {"reference": "nginx"}}, {"name": "w", "emptyDir": {}}]})) == 1
}
