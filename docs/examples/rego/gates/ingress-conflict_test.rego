package admission_test

import rego.v1

import data.admission

ingress(host) := {"spec": {"rules": [{"host": host}]}}

ingresses := {"back": {"taken": ingress("a.example.com")}}

review_of(name, host) := {"reviewed": ["ingresses", "back", name, ingress(host)]}

test_a_host_that_is_taken_is_refused_in_the_words_of_the_policy if {
	denied := admission.deny with input as review_of("web", "a.example.com")
		with data.kubernetes.ingresses as ingresses
	some denial in denied
	denial.resolution.message == "host a.example.com is taken by Ingress back/taken"
}

test_another_host_passes if not is_taken("web", "b.example.com")

test_its_own_host_is_not_taken if not is_taken("taken", "a.example.com")

is_taken(name, host) if {
	some denial in admission.deny with input as review_of(name, host)
		with data.kubernetes.ingresses as ingresses
	denial.id == "ingress-conflict"
}
