//go:build tools

package conformance

import (
	// The backends of the suite: Pods that answer with what they were sent.
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic"
)
