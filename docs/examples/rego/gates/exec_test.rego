package authorization_test

import rego.v1

import data.authorization

review(namespace, subresource, verb) := {"spec": {
	"user": "jane",
	"resourceAttributes": {
		"namespace": namespace, "name": "dns", "resource": "pods", "subresource": subresource, "verb": verb,
	},
}}

test_no_other_door_is_open if {
	every verb in ["get", "create"] {
		every door in ["attach", "portforward", "proxy"] {
			count(denied("kube-system", door, verb)) == 1
		}
	}
	count(denied("kube-system", "ephemeralcontainers", "patch")) == 1
	count(authorization.deny) == 1 with input as {"reviewed": ["nodes", "", "n", review("", "proxy", "create")]}
	count(authorization.deny) == 0 with input as {"reviewed": ["nodes", "", "n", review("", "status", "get")]}
}

denied(namespace, subresource, verb) := {denial.resolution.message |
	some denial in authorization.deny with input as {"reviewed": ["pods", namespace, "dns", review(namespace, subresource, verb)]}
}

test_a_command_in_a_pod_of_the_system_is_denied_by_both_verbs if {
	denied("kube-system", "exec", "get") == {"no exec in pods of kube-system"}
	denied("kube-system", "exec", "create") == {"no exec in pods of kube-system"}
}

test_a_command_elsewhere_is_no_matter_of_this_policy if count(denied("shop", "exec", "get")) == 0

test_logs_of_a_pod_of_the_system_are_read if count(denied("kube-system", "log", "get")) == 0
