// The OTLP receiver of the OpenTelemetry Collector. It prints what it receives, one line of JSON for each export:
// OTLP's own JSON encoding after the name of the signal; for metrics, the names of those that are new.
// Arguments: the address for gRPC and, if any, the one for HTTP.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"go.opentelemetry.io/collector/confmap"
)

var printing sync.Mutex

func printLine(signal string, body []byte, err error) error {
	if err != nil {
		return err
	}
	printing.Lock()
	defer printing.Unlock()
	_, err = fmt.Printf("%s %s\n", signal, body)
	return err
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var naming sync.Mutex

// newNames has the types and names of metrics that are not known yet.
func newNames(received pmetric.Metrics, known map[string]bool) []string {
	naming.Lock()
	defer naming.Unlock()
	found := []string{}
	for _, ofResource := range received.ResourceMetrics().All() {
		for _, ofScope := range ofResource.ScopeMetrics().All() {
			for _, metric := range ofScope.Metrics().All() {
				name := metric.Type().String() + " " + metric.Name()
				if !known[name] {
					known[name] = true
					found = append(found, name)
				}
			}
		}
	}
	return found
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	protocols := map[string]any{"grpc": map[string]any{"endpoint": os.Args[1]}}
	if len(os.Args) > 2 {
		protocols["http"] = map[string]any{"endpoint": os.Args[2]}
	}
	exitOn(confmap.NewFromStringMap(map[string]any{"protocols": protocols}).Unmarshal(config))
	settings := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}

	spans, err := consumer.NewTraces(func(_ context.Context, received ptrace.Traces) error {
		body, err := (&ptrace.JSONMarshaler{}).MarshalTraces(received)
		return printLine("spans", body, err)
	})
	exitOn(err)
	logs, err := consumer.NewLogs(func(_ context.Context, received plog.Logs) error {
		body, err := (&plog.JSONMarshaler{}).MarshalLogs(received)
		return printLine("logs", body, err)
	})
	exitOn(err)
	known := map[string]bool{}
	metrics, err := consumer.NewMetrics(func(_ context.Context, received pmetric.Metrics) error {
		body, err := json.Marshal(newNames(received, known))
		return printLine("metrics", body, err)
	})
	exitOn(err)
	// All signals share one server.
	ofSpans, err := factory.CreateTraces(ctx, settings, config, spans)
	exitOn(err)
	ofLogs, err := factory.CreateLogs(ctx, settings, config, logs)
	exitOn(err)
	ofMetrics, err := factory.CreateMetrics(ctx, settings, config, metrics)
	exitOn(err)
	for _, each := range []component.Component{ofSpans, ofLogs, ofMetrics} {
		exitOn(each.Start(ctx, componenttest.NewNopHost()))
	}
	fmt.Println("ready")
	<-ctx.Done()
	for _, each := range []component.Component{ofSpans, ofLogs, ofMetrics} {
		exitOn(each.Shutdown(context.Background()))
	}
}
