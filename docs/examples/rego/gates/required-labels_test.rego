package admission_test

import rego.v1

import data.admission

missing(metadata) := {denial.resolution.message |
	some denial in admission.deny with input as {"reviewed": ["namespaces", "", "shop", {"metadata": metadata}]}
}

test_a_namespace_with_both_labels_passes if missing({"labels": {"team": "shop", "cost-center": "7"}}) == set()

test_each_that_is_missing_is_told if {
	missing({"labels": {"team": ""}}) == {"label team is missing", "label cost-center is missing"}
	missing({}) == {"label team is missing", "label cost-center is missing"}
}
