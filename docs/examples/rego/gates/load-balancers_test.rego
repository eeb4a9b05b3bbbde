package admission_test

import rego.v1

import data.admission

service(type) := {"spec": {"type": type}}

services := {"shop": {name: service("LoadBalancer") | some name in ["a", "b", "c"]}}

test_a_third_is_refused if {
	denied := admission.deny with input as {"reviewed": ["services", "shop", "c", service("LoadBalancer")]}
		with data.kubernetes.services as services
	some denial in denied
	denial.resolution.message == "shop would have 3 load balancers, 2 are allowed"
}

test_a_service_of_another_type_passes if {
	denied := admission.deny with input as {"reviewed": ["services", "shop", "c", service("ClusterIP")]}
		with data.kubernetes.services as services
	count(denied) == 0
}
