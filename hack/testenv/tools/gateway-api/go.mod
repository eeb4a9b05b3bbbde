// The Gateway API's CRDs come out of its module; nothing of it is built, so `go mod tidy` would drop it:
// pin another version with `go mod edit -require` and `go mod download`.
module policy-sync/testenv/tools/gateway-api

go 1.26.0

require sigs.k8s.io/gateway-api v1.6.3
