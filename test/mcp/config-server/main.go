// A server of configuration over xDS with the protocols of go-control-plane. Tests read from it with ctl-discovery.
//
//	config-server -listen ADDR -documents FILE [-sotw]  serves the documents of a file, each under GROUP/v1/KIND
//
// Without -sotw, it offers Delta only, and with it State of the World only.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"

	mcp "istio.io/api/mcp/v1alpha1"
	_ "istio.io/api/networking/v1alpha3"
	_ "istio.io/api/security/v1beta1"
)

const resourceType = "type.googleapis.com/istio.mcp.v1alpha1.Resource"

var printing sync.Mutex

func print(value any) {
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

// served has a linear cache for each type that is asked for or served.
type served struct {
	sotw   bool
	mutex  sync.Mutex
	caches map[string]*cache.LinearCache
	// version is that of the file, and sent has those of State of the World by type.
	version atomic.Int64
	sent    map[string]int64
}

func (s *served) of(typeURL string) *cache.LinearCache {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.caches[typeURL] == nil {
		s.caches[typeURL] = cache.NewLinearCache(typeURL)
	}
	return s.caches[typeURL]
}

func (s *served) types() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Collect(maps.Keys(s.caches))
}

// CreateWatch responds with all documents of the type: the linear cache sends only those that changed.
func (s *served) CreateWatch(
	request *cache.Request, _ cache.Subscription, to chan cache.Response,
) (func(), error) {
	if !s.sotw {
		return nil, fmt.Errorf("only Delta is offered")
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for first := request.GetResponseNonce() == ""; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			if version := s.version.Load(); first || s.sentVersion(request.GetTypeUrl(), version) != version {
				s.sentVersion(request.GetTypeUrl(), version)
				to <- allWithResourceType{cache.NewTestRawResponse(request, fmt.Sprint(version), s.all(request))}
				return
			}
		}
	}()
	return cancel, nil
}

// sentVersion returns the version of a type that was sent before, and sets it.
func (s *served) sentVersion(typeURL string, version int64) int64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.sent[typeURL]
	s.sent[typeURL] = version
	return before
}

func (s *served) all(request *cache.Request) []types.ResourceWithTTL {
	var all []types.ResourceWithTTL
	for _, resource := range s.of(request.GetTypeUrl()).GetResources() {
		all = append(all, types.ResourceWithTTL{Resource: resource})
	}
	return all
}

// allWithResourceType is as withResourceType.
type allWithResourceType struct{ cache.Response }

func (r allWithResourceType) GetDiscoveryResponse() (*discovery.DiscoveryResponse, error) {
	response, err := r.Response.GetDiscoveryResponse()
	for _, resource := range response.GetResources() {
		resource.TypeUrl = resourceType
	}
	return response, err
}

func (s *served) Fetch(context.Context, *cache.Request) (cache.Response, error) {
	return nil, fmt.Errorf("only streams are offered")
}

func (s *served) CreateDeltaWatch(
	request *cache.DeltaRequest, subscription cache.Subscription, to chan cache.DeltaResponse,
) (func(), error) {
	from := make(chan cache.DeltaResponse, 1)
	cancel, err := s.of(request.GetTypeUrl()).CreateDeltaWatch(request, subscription, from)
	done := make(chan struct{})
	go func() {
		select {
		case response := <-from:
			to <- withResourceType{response}
		case <-done:
		}
	}()
	var once sync.Once
	return func() {
		if cancel != nil {
			cancel()
		}
		once.Do(func() { close(done) })
	}, err
}

// withResourceType has documents in messages of MCP. The cache takes the type of the request for that of resources.
type withResourceType struct{ cache.DeltaResponse }

func (r withResourceType) GetDeltaDiscoveryResponse() (*discovery.DeltaDiscoveryResponse, error) {
	response, err := r.DeltaResponse.GetDeltaDiscoveryResponse()
	for _, resource := range response.GetResources() {
		resource.Resource.TypeUrl = resourceType
	}
	return response, err
}

type document struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Message string          `json:"message"`
	Spec    json.RawMessage `json:"spec"`
}

// typeOf is networking.istio.io/v1/Gateway for istio.networking.v1alpha3.Gateway.
func typeOf(message string) string {
	parts := strings.Split(message, ".")
	return parts[1] + ".istio.io/v1/" + parts[3]
}

func resourceOf(each document) types.Resource {
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(each.Message))
	check(err)
	message := found.New().Interface()
	check(protojson.Unmarshal(each.Spec, message))
	body, err := anypb.New(proto.Message(message))
	check(err)
	metadata := &mcp.Metadata{Name: each.Name, Version: each.Version, CreateTime: timestamppb.New(time.Unix(1e9, 0))}
	return &mcp.Resource{Metadata: metadata, Body: body}
}

func follow(file string, all *served) {
	var before []byte
	for ; ; time.Sleep(5 * time.Millisecond) {
		content, err := os.ReadFile(file)
		if err != nil || bytes.Equal(content, before) {
			continue
		}
		before = content
		var read struct{ Documents []document }
		check(json.Unmarshal(content, &read))
		byType := map[string]map[string]types.Resource{}
		for _, typeURL := range all.types() {
			byType[typeURL] = map[string]types.Resource{}
		}
		for _, each := range read.Documents {
			typeURL := typeOf(each.Message)
			if byType[typeURL] == nil {
				byType[typeURL] = map[string]types.Resource{}
			}
			byType[typeURL][each.Name] = resourceOf(each)
		}
		for typeURL, resources := range byType {
			all.of(typeURL).SetResources(resources)
		}
		all.version.Add(1)
	}
}

// printed prints what is sent and refused.
type printed struct{ server.CallbackFuncs }

func (printed) OnStreamDeltaRequest(_ int64, request *discovery.DeltaDiscoveryRequest) error {
	if request.GetResponseNonce() == "" {
		print(map[string]any{"type": request.GetTypeUrl(), "known": request.GetInitialResourceVersions()})
	}
	if detail := request.GetErrorDetail(); detail != nil {
		print(map[string]any{"nack": detail.GetMessage()})
	}
	return nil
}

func (printed) OnStreamDeltaResponse(
	_ int64, _ *discovery.DeltaDiscoveryRequest, response *discovery.DeltaDiscoveryResponse,
) {
	names := []string{}
	for _, resource := range response.GetResources() {
		names = append(names, resource.GetName())
	}
	print(map[string]any{"sent": names, "removed": response.GetRemovedResources(), "type": response.GetTypeUrl()})
}

func (printed) OnStreamRequest(_ int64, request *discovery.DiscoveryRequest) error {
	if request.GetResponseNonce() == "" {
		print(map[string]any{"all": request.GetTypeUrl()})
	}
	return nil
}

// withoutDelta does not implement Delta.
type withoutDelta struct{ server.Server }

func (withoutDelta) DeltaAggregatedResources(discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return status.Error(codes.Unimplemented, "not implemented")
}

func main() {
	sotw := flag.Bool("sotw", false, "whether State of the World is offered, and not Delta")
	listen := flag.String("listen", "127.0.0.1:0", "address of the server")
	file := flag.String("documents", "", "file with the documents, as JSON; it is followed")
	flag.Parse()
	all := &served{sotw: *sotw, caches: map[string]*cache.LinearCache{}, sent: map[string]int64{}}
	listener, err := net.Listen("tcp", *listen)
	check(err)
	grpcServer := grpc.NewServer()
	service := server.NewServer(context.Background(), all, printed{})
	if *sotw {
		service = withoutDelta{service}
	}
	discovery.RegisterAggregatedDiscoveryServiceServer(grpcServer, service)
	go follow(*file, all)
	check(grpcServer.Serve(listener))
}
