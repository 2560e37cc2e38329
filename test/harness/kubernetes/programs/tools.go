//go:build tools

// Package programs names the programs that tests run, so that go.mod and go.sum hold what they are built from.
package programs

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
