package io.k8s.federation.admission_test

import rego.v1

import data.io.k8s.federation.admission

namespaces := {"shop": {"metadata": {"labels": {"region": "eu"}}}, "lab": {"metadata": {}}}

limits(namespace, annotations) := {
	"kind": "RateLimitPolicy",
	"metadata": {"name": "limits", "namespace": namespace, "annotations": annotations},
}

annotations_of(object) := annotations if {
	annotations := admission.annotations with input as object with data.kubernetes.namespaces as namespaces
}

test_a_policy_stays_in_the_region_of_its_namespace if {
	annotations_of(limits("shop", {})) == {"kuadrant.io/cluster-selector": "region=eu"}
}

test_what_its_developer_asks_for_is_narrowed if {
	asked := limits("shop", {"kuadrant.io/cluster-selector": "env=prod"})
	annotations_of(asked) == {"kuadrant.io/cluster-selector": "env=prod,region=eu"}
}

test_without_a_region_it_goes_anywhere if {
	annotations_of(limits("lab", {})) == {}
}

test_an_app_goes_anywhere if {
	annotations_of({"kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}) == {}
}
