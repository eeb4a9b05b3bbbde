package io.k8s.federation.admission_test

import rego.v1

import data.io.k8s.federation.admission

fleet := {
	"c1": {"metadata": {"labels": {"zone": "eu", "pci": "certified"}}},
	"c2": {"metadata": {"labels": {"zone": "us", "pci": "certified"}}},
	"c3": {"metadata": {"labels": {"zone": "eu"}}},
}

app(annotations) := {"metadata": {"name": "shop", "annotations": annotations}}

test_an_app_with_card_data_goes_where_that_is_certified if {
	annotations := admission.annotations with input as app({"requires-pci": "true"})
		with data.kubernetes.clusters as fleet
	annotations[admission.preferences] == {"clusters": {"c1": {"weight": 1}}, "rebalance": true}
}

test_a_wish_for_such_a_cluster_stands if {
	wish := app({"requires-pci": "true", admission.preferences: `{"clusters":{"c1":{"weight":2}}}`})
	answer := admission with input as wish with data.kubernetes.clusters as fleet
	count(answer.annotations) == 0
	count(answer.errors) == 0
}

test_a_wish_for_another_is_refused if {
	wish := app({"requires-pci": "true", admission.preferences: `{"clusters":{"c2":{"weight":1}}}`})
	errors := admission.errors with input as wish with data.kubernetes.clusters as fleet
	errors == {"shop handles card data: cluster c2 is not certified for it"}
}

test_without_such_a_cluster_it_is_refused if {
	errors := admission.errors with input as app({"requires-pci": "true"})
		with data.kubernetes.clusters as {}
	errors == {"shop handles card data: no cluster of an EU zone is certified for it"}
}

test_other_apps_go_anywhere if {
	answer := admission with input as app({}) with data.kubernetes.clusters as fleet
	count(answer.annotations) == 0
	count(answer.errors) == 0
}
