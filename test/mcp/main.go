// Both ends of the Mesh Configuration Protocol, and a client of configuration over xDS, as Istio 1.7 has them. Tests
// start this program against ctl-discovery.
//
//	mcp-ends source -listen ADDR -documents FILE [-incremental] [-policy]  serves the documents of a file
//	mcp-ends sink   -connect ADDR -certs DIR [-incremental]  prints what it receives: one JSON object per line
//	mcp-ends xds    -connect ADDR -certs DIR            the same over xDS
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"reflect"
	"sync"
	"time"

	"crypto/tls"
	"crypto/x509"

	"github.com/gogo/protobuf/jsonpb"
	"github.com/gogo/protobuf/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	mcp "istio.io/api/mcp/v1alpha1"
	_ "istio.io/api/networking/v1alpha3"
	_ "istio.io/api/policy/v1beta1"
	_ "istio.io/api/security/v1beta1"

	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/mcp/rate"
	"istio.io/istio/pkg/mcp/server"
	"istio.io/istio/pkg/mcp/sink"
	"istio.io/istio/pkg/mcp/snapshot"
	"istio.io/istio/pkg/mcp/source"
)

var printing sync.Mutex

func print(value interface{}) {
	line, err := json.Marshal(value)
	check(err)
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// reporter prints acknowledgements.
type reporter struct{}

func (reporter) Close() error                         { return nil }
func (reporter) RecordSendError(error, codes.Code)    {}
func (reporter) RecordRecvError(error, codes.Code)    {}
func (reporter) RecordRequestSize(string, int64, int) {}
func (reporter) SetStreamCount(clients int64)         { print(map[string]int64{"clients": clients}) }
func (reporter) RecordStreamCreateSuccess()           { print(map[string]bool{"connected": true}) }
func (reporter) RecordRequestAck(collection string, _ int64) {
	print(map[string]string{"ack": collection})
}
func (reporter) RecordRequestNack(c string, _ int64, _ codes.Code) {
	print(map[string]string{"nack": c})
}

type document struct {
	Collection string            `json:"collection"`
	Name       string            `json:"name"`
	Version    string            `json:"version"`
	Labels     map[string]string `json:"labels"`
	Message    string            `json:"message"`
	Spec       json.RawMessage   `json:"spec"`
}

type documents struct {
	Version   string     `json:"version"`
	Documents []document `json:"documents"`
}

func names(policy bool) []string {
	var all []string
	for _, schema := range collections.Pilot.All() {
		all = append(all, schema.Name().String())
	}
	if policy {
		all = append(all, policyNames()...)
	}
	return all
}

// policyNames are the collections that Mixer asks for, and discovery does not.
func policyNames() []string {
	var all []string
	for _, schema := range collections.Deprecated.All() {
		if _, found := collections.Pilot.Find(schema.Name().String()); !found {
			all = append(all, schema.Name().String())
		}
	}
	return all
}

func serve(address, file string, incremental, policy bool) {
	cache := snapshot.New(func(string, *mcp.SinkNode) string { return "all" })
	options := source.CollectionOptionsFromSlice(names(policy))
	for i := range options {
		options[i].Incremental = incremental
	}
	served := source.NewServer(&source.Options{
		Watcher:            cache,
		CollectionsOptions: options,
		Reporter:           reporter{},
		ConnRateLimiter:    rate.NewRateLimiter(time.Millisecond, 1000),
	}, &source.ServerOptions{AuthChecker: server.NewAllowAllChecker()})
	listener, err := net.Listen("tcp", address)
	check(err)
	grpcServer := grpc.NewServer(grpc.MaxRecvMsgSize(1<<26), grpc.MaxSendMsgSize(1<<26))
	mcp.RegisterResourceSourceServer(grpcServer, served)
	go func() { check(grpcServer.Serve(listener)) }()
	print(map[string]int{"listening": listener.Addr().(*net.TCPAddr).Port})
	var before []byte
	for ; ; time.Sleep(5 * time.Millisecond) {
		content, err := os.ReadFile(file)
		if err != nil || bytes.Equal(content, before) {
			continue
		}
		before = content
		var all documents
		check(json.Unmarshal(content, &all))
		builder := snapshot.NewInMemoryBuilder()
		for _, collection := range names(policy) {
			builder.Set(collection, all.Version, nil)
		}
		for _, each := range all.Documents {
			message := reflect.New(proto.MessageType(each.Message).Elem()).Interface().(proto.Message)
			check(jsonpb.Unmarshal(bytes.NewReader(each.Spec), message))
			check(builder.SetEntry(each.Collection, each.Name, each.Version, time.Unix(1e9, 0), each.Labels, nil, message))
		}
		cache.SetSnapshot("all", builder.Build())
		print(map[string]string{"serving": all.Version})
	}
}

func specOf(message proto.Message) json.RawMessage {
	text, err := (&jsonpb.Marshaler{}).MarshalToString(message)
	check(err)
	return json.RawMessage(text)
}

type updater struct{}

func (updater) Apply(change *sink.Change) error {
	all := []document{}
	for _, object := range change.Objects {
		meta := object.Metadata
		all = append(all, document{
			Name: meta.Name, Version: meta.Version, Labels: meta.Labels,
			Message: proto.MessageName(object.Body), Spec: specOf(object.Body),
		})
	}
	print(map[string]interface{}{
		"collection": change.Collection, "incremental": change.Incremental, "removed": change.Removed, "documents": all,
	})
	return nil
}

func credentialsIn(directory, serverName string) credentials.TransportCredentials {
	pair, err := tls.LoadX509KeyPair(directory+"/cert-chain.pem", directory+"/key.pem")
	check(err)
	root, err := os.ReadFile(directory + "/root-cert.pem")
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: serverName})
}

func receive(address, certs string, incremental bool) {
	host, _, err := net.SplitHostPort(address)
	check(err)
	connection, err := grpc.Dial(address, grpc.WithTransportCredentials(credentialsIn(certs, host)))
	check(err)
	options := sink.CollectionOptionsFromSlice(supported())
	for i := range options {
		options[i].Incremental = incremental
	}
	client := sink.NewClient(mcp.NewResourceSourceClient(connection), &sink.Options{
		CollectionOptions: options, Updater: updater{}, ID: "istio", Reporter: reporter{},
	})
	client.Run(context.Background())
}

// supported are the collections without those of quotas and API specifications of Mixer's clients.
func supported() []string {
	all := policyNames()
	for _, name := range names(false) {
		if bytes.HasPrefix([]byte(name), []byte("istio/networking/")) || bytes.HasPrefix([]byte(name), []byte("istio/security/")) {
			all = append(all, name)
		}
	}
	return all
}

func main() {
	flags := flag.CommandLine
	listen := flags.String("listen", "127.0.0.1:0", "address of the source")
	file := flags.String("documents", "", "file with what the source serves, as JSON; it is followed")
	address := flags.String("connect", "", "address of the server")
	certs := flags.String("certs", "", "directory with certificates")
	policy := flags.Bool("policy", false, "whether the source has the collections of Mixer")
	incremental := flags.Bool("incremental", false, "whether changes alone are sent")
	check(flags.Parse(os.Args[2:]))
	switch os.Args[1] {
	case "source":
		serve(*listen, *file, *incremental, *policy)
	case "sink":
		receive(*address, *certs, *incremental)
	case "xds":
		watch(*address, *certs)
	}
}
