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

test_another_host_passes if {
	denied := admission.deny with input as review_of("web", "b.example.com")
		with data.kubernetes.ingresses as ingresses
	count(denied) == 0
}

test_its_own_host_is_not_taken if {
	denied := admission.deny with input as review_of("taken", "a.example.com")
		with data.kubernetes.ingresses as ingresses
	count(denied) == 0
}
