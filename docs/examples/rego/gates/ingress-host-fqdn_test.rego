package admission_test

import rego.v1

import data.admission

namespaces := {"shop": {"metadata": {"annotations": {"ingress-allowlist": "shop.example.com, *.shop.example.com"}}}}

refused(namespace, spec) := {denial.resolution.message |
	some denial in admission.deny with input as {"reviewed": ["ingresses", namespace, "web", {"spec": spec}]}
		with data.kubernetes.namespaces as namespaces
	denial.id == "ingress-host-fqdn"
}

of_host(host) := {"rules": [{"host": host}]}

test_what_is_allowed_passes if {
	refused("shop", of_host("shop.example.com")) == set()
	refused("shop", of_host("a.shop.example.com")) == set()
}

test_another_host_is_refused if {
	refused("shop", of_host("shopXexample.com")) == {"shop may not have shopXexample.com"}
	refused("shop", of_host("a.shop.example.com.evil.example")) != set()
	refused("shop", of_host("ashop.example.com")) != set()
}

test_every_host_is_refused if {
	refused("shop", {"rules": [{"http": {}}]}) == {"shop may not have every host"}
	refused("shop", {"defaultBackend": {"service": {"name": "web"}}}) == {"shop may not have every host"}
}

test_a_namespace_that_says_nothing_has_none if {
	refused("other", of_host("shop.example.com")) == {"other may not have shop.example.com"}
}
