// A gRPC application that speaks xDS itself, for tests: client and server, controlled over HTTP.
//
//	POST /call {"target", "method", "headers", "calls", "parallel", "attempts", "timeoutMs", "fresh"} makes calls and
//	answers their results; "parallel" of them at a time, "fresh" with connections of their own. An interceptor makes a
//	call that failed with UNAVAILABLE again, up to "attempts" times in all.
//	POST /serve {"address", "name"} starts a server that answers with this name.
//	GET /modes has the mode of each server by its address: "serving", or why it does not serve.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	xdscredentials "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type callRequest struct {
	Target    string
	Method    string
	Headers   map[string]string
	Calls     int
	Parallel  int
	Attempts  int
	TimeoutMs int
	Fresh     bool
}

type callResult struct {
	Answers map[string]int `json:"answers"`
	Errors  map[string]int `json:"errors"`
	Message string         `json:"message"`
}

type serveRequest struct {
	Address string
	Name    string
}

var (
	mutex    sync.Mutex
	channels = map[string]*grpc.ClientConn{}
	modes    = map[string]string{}
)

func channel(target string) (*grpc.ClientConn, error) {
	mutex.Lock()
	defer mutex.Unlock()
	if known := channels[target]; known != nil {
		return known, nil
	}
	made, err := newChannel(target)
	if err == nil {
		channels[target] = made
	}
	return made, err
}

func newChannel(target string) (*grpc.ClientConn, error) {
	creds, err := xdscredentials.NewClientCredentials(xdscredentials.ClientOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithUnaryInterceptor(retry))
}

type attemptsKey struct{}

const retryDelay = 20 * time.Millisecond

// retry does what the retry policy of a route does not: it covers calls that the client's own balancer refused.
func retry(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	attempts, _ := ctx.Value(attemptsKey{}).(int)
	for attempt := 1; ; attempt++ {
		err := invoke(ctx, method, request, answer, conn, options...)
		if status.Code(err) != codes.Unavailable || attempt >= attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(attempt) * retryDelay):
		}
	}
}

func call(request callRequest) (callResult, error) {
	result := callResult{Answers: map[string]int{}, Errors: map[string]int{}}
	open := channel
	if request.Fresh {
		open = newChannel
	}
	conn, err := open(request.Target)
	if err != nil {
		return result, err
	}
	if request.Fresh {
		defer conn.Close()
	}
	var waiting sync.WaitGroup
	var counting sync.Mutex
	parallel := max(request.Parallel, 1)
	for lane := range parallel {
		waiting.Go(func() {
			for number := lane; number < request.Calls; number += parallel {
				answer, err := callOnce(conn, request)
				counting.Lock()
				if err != nil {
					result.Errors[status.Code(err).String()]++
					result.Message = err.Error()
				} else {
					result.Answers[answer]++
				}
				counting.Unlock()
			}
		})
	}
	waiting.Wait()
	return result, nil
}

func callOnce(conn *grpc.ClientConn, request callRequest) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(request.TimeoutMs)*time.Millisecond)
	defer cancel()
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(request.Headers))
	ctx = context.WithValue(ctx, attemptsKey{}, request.Attempts)
	answer := &wrapperspb.StringValue{}
	err := conn.Invoke(ctx, request.Method, &emptypb.Empty{}, answer)
	return answer.GetValue(), err
}

func serve(request serveRequest) error {
	creds, err := xdscredentials.NewServerCredentials(xdscredentials.ServerOptions{FallbackCreds: insecure.NewCredentials()})
	if err != nil {
		return err
	}
	server, err := xds.NewGRPCServer(grpc.Creds(creds), xds.ServingModeCallback(func(address net.Addr, change xds.ServingModeChangeArgs) {
		mutex.Lock()
		defer mutex.Unlock()
		modes[address.String()] = fmt.Sprintf("%s %v", change.Mode, change.Err)
		if change.Mode == connectivity.ServingModeServing {
			modes[address.String()] = "serving"
		}
	}))
	if err != nil {
		return err
	}
	say := func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		if err := decode(&emptypb.Empty{}); err != nil {
			return nil, err
		}
		handler := func(context.Context, any) (any, error) { return wrapperspb.String(request.Name), nil }
		if intercept == nil {
			return handler(ctx, nil)
		}
		return intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/echo.Echo/Say"}, handler)
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "echo.Echo",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Say", Handler: say}, {MethodName: "Shout", Handler: say}},
	}, struct{}{})
	listener, err := net.Listen("tcp", request.Address)
	if err != nil {
		return err
	}
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Printf("server at %s: %v", request.Address, err)
		}
	}()
	return nil
}

func answering[Request any](handle func(Request) (any, error)) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		var body Request
		err := json.NewDecoder(request.Body).Decode(&body)
		var result any
		if err == nil {
			result, err = handle(body)
		}
		if err != nil {
			http.Error(response, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(response).Encode(result)
	}
}

func main() {
	http.HandleFunc("/call", answering(func(request callRequest) (any, error) { return call(request) }))
	http.HandleFunc("/serve", answering(func(request serveRequest) (any, error) { return struct{}{}, serve(request) }))
	http.HandleFunc("/modes", func(response http.ResponseWriter, _ *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		_ = json.NewEncoder(response).Encode(modes)
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
