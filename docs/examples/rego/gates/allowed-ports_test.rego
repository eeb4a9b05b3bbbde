package admission_test

import rego.v1

import data.admission

refused_ports(spec) := {denial.resolution.message |
	some denial in admission.deny with input as {"reviewed": ["services", "shop", "web", {"spec": spec}]}
	denial.id == "allowed-ports"
}

test_open_ports_pass if refused_ports({"ports": [{"port": 80}, {"port": 8443}]}) == set()

test_another_port_is_refused if {
	refused_ports({"ports": [{"port": 80}, {"port": 22}]}) == {"port 22 is not one of {80, 443, 8080, 8443}"}
}

test_a_port_of_nodes_is_refused if {
	count(refused_ports({"type": "NodePort", "ports": [{"port": 80}]})) == 1
	count(refused_ports({"type": "ClusterIP", "externalIPs": ["192.0.2.1"]})) == 1
	count(refused_ports({"type": "LoadBalancer"})) == 1
	count(refused_ports({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})) == 0
}
