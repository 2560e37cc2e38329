package main

import (
	"time"

	"istio.io/istio/pilot/pkg/config/memory"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/adsc"
	"istio.io/istio/pkg/config/schema/collections"
)

// watch follows the configuration of a server as discovery does for `configSources: [{address: xds://…}]`. Istio 1.7
// has no Delta and does not delete: the test expects additions and updates only.
func watch(address, certs string) {
	metadata := model.NodeMetadata{Generator: "api"}.ToStruct()
	client, err := adsc.Dial(address, certs, &adsc.Config{Meta: metadata, Namespace: "mesh-system"})
	check(err)
	client.Store = model.MakeIstioStore(memory.NewController(memory.Make(collections.Pilot)))
	client.WatchConfig()
	printed := map[string]string{}
	for {
		for _, schema := range collections.Pilot.All() {
			kind := schema.Resource().GroupVersionKind()
			configs, err := client.Store.List(kind, "")
			if err != nil {
				continue
			}
			for _, config := range configs {
				name := kind.Kind + "/" + config.Namespace + "/" + config.Name
				spec := specOf(config.Spec)
				if printed[name] == string(spec) {
					continue
				}
				printed[name] = string(spec)
				print(map[string]interface{}{"xds": name, "spec": spec})
			}
		}
		if client.WaitConfigSync(0) && printed["synced"] == "" {
			printed["synced"] = "yes"
			print(map[string]bool{"synced": true})
		}
		time.Sleep(20 * time.Millisecond)
	}
}
