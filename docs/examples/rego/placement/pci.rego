# Places apps that handle card data only on certified clusters in EU zones.
package io.k8s.federation.admission

import rego.v1

import data.kubernetes.clusters

preferences := "federation.kubernetes.io/replica-set-preferences"

# The clusters on which these apps may run.
certified contains name if {
	some name, cluster in clusters
	cluster.metadata.labels.zone == "eu"
	cluster.metadata.labels.pci == "certified"
}

handles_cards if input.metadata.annotations["requires-pci"] == "true"

# The clusters that the developer of the app requests.
wish := json.unmarshal(input.metadata.annotations[preferences])

# Without a request, places the app on all certified clusters with equal weights.
annotations[preferences] := {"clusters": {name: {"weight": 1} | some name in certified}, "rebalance": true} if {
	handles_cards
	not input.metadata.annotations[preferences]
	count(certified) > 0
}

errors contains sprintf("%s handles card data: cluster %s is not certified for it", [input.metadata.name, name]) if {
	handles_cards
	some name, _ in wish.clusters
	not name in certified
}

errors contains sprintf("%s handles card data: no cluster of an EU zone is certified for it", [input.metadata.name]) if {
	handles_cards
	count(certified) == 0
}
