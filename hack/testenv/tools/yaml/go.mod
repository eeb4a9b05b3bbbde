// yaml-reader, which reads YAML as kubectl does, and the cases of yaml-test-suite.
module policy-sync/testenv/tools/yaml

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2
	go.yaml.in/yaml/v3 v3.0.4
	k8s.io/apimachinery v0.36.3
)

require (
	go.yaml.in/yaml/v2 v2.4.3 // indirect
	sigs.k8s.io/json v0.0.0-20250730193827-2d320260d730 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)
