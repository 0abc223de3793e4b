// The Gardener custom resource definitions the tests install. Only the module
// sources are fetched (go mod download); nothing is built from here.
module kelpie.dev/tools/crds

go 1.26.0

require (
	github.com/gardener/gardener v1.136.2
	github.com/gardener/machine-controller-manager v0.61.2
)
