//go:build tools

// Package helm names the program that tests of the Helm chart run, so that go.mod and go.sum hold what it is built from.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
