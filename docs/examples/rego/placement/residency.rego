# Policies stay on the clusters of the region that their namespace names, wherever else they are meant to be.
package io.k8s.federation.admission

import rego.v1

selector := "kuadrant.io/cluster-selector"

region := data.kubernetes.namespaces[input.metadata.namespace].metadata.labels.region

stays if {
	endswith(input.kind, "Policy")
	region
}

annotations[selector] := sprintf("region=%s", [region]) if {
	stays
	not input.metadata.annotations[selector]
}

# What its developer asks for is narrowed.
annotations[selector] := sprintf("%s,region=%s", [input.metadata.annotations[selector], region]) if stays
