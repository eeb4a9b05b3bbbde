package admission_test

import rego.v1

import data.admission

pod(policies) := {"spec": {"containers": [{"name": "c", "imagePullPolicy": policy} | some policy in policies]}}

review(policies) := {"reviewed": ["pods", "shop", "web", pod(policies)]}

test_what_is_always_pulled_passes if {
	count(admission.deny) == 0 with input as review(["Always"])
}

test_another_is_mended_where_it_stands if {
	denied := admission.deny with input as review(["Always", "Never"])
	count(denied) == 1
	some denial in denied
	denial.resolution.patches[0].path == "/spec/containers/1/imagePullPolicy"
}

# `policy-sync rego test` evaluates all admission policies for this sample, and fails if their patches conflict.
sample_pod := review(["Never"])
