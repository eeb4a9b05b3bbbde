# Keeps Gateway API policies on the clusters of the region in the Namespace's label `region`.
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

# If the developer sets a selector, adds the region to this selector.
annotations[selector] := sprintf("%s,region=%s", [input.metadata.annotations[selector], region]) if stays
