// Runs the cases of h2spec against a gRPC server and prints what came of each as one line of JSON.
//
// h2spec asks with GET, which a gRPC server answers with an error before anything of HTTP/2 is tried: what is built here is h2spec
// with requests that are gRPC calls; see build.ts.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// Outcome is a line of the output.
type Outcome struct {
	// ID is the section of the RFC as h2spec numbers it (RFC 7540 and 7541), and the number of the case in it.
	ID       string   `json:"id"`
	What     string   `json:"what"`
	Result   string   `json:"result"`
	Expected []string `json:"expected,omitempty"`
	Actual   string   `json:"actual,omitempty"`
}

// atOnce is how many cases run side by side: most of their time is waiting for what should not come.
const atOnce = 16

type job struct {
	id   string
	test *spec.TestCase
}

func jobsOf(group *spec.TestGroup) []job {
	var jobs []job
	for index, test := range append(append([]*spec.TestCase{}, group.Tests...), group.StrictTests...) {
		jobs = append(jobs, job{fmt.Sprintf("%s/%d", group.ID(), index+1), test})
	}
	for _, inner := range group.Groups {
		jobs = append(jobs, jobsOf(inner)...)
	}
	return jobs
}

func run(one job, c config.Config) Outcome {
	outcome := Outcome{ID: one.id, What: one.test.Desc, Result: "passed"}
	conn, err := spec.Dial(&c)
	if err == nil {
		defer conn.Close()
		err = one.test.Run(&c, conn)
	}
	if err == spec.ErrSkipped {
		outcome.Result = "skipped"
	} else if failure, ok := err.(*spec.TestError); ok {
		outcome.Result, outcome.Expected, outcome.Actual = "failed", failure.Expected, failure.Actual
	} else if err != nil {
		outcome.Result, outcome.Actual = "failed", err.Error()
	}
	return outcome
}

func main() {
	port := flag.Int("port", 0, "port of the server on 127.0.0.1")
	path := flag.String("path", "/", "the method that is called")
	timeout := flag.Duration("timeout", 2*time.Second, "how long an answer is waited for")
	flag.Parse()
	// Strict: also what the RFC says in other words than MUST.
	c := config.Config{Host: "127.0.0.1", Port: *port, Path: *path, Timeout: *timeout, MaxHeaderLen: 4000, Strict: true}
	jobs := append(append(jobsOf(generic.Spec()), jobsOf(http2.Spec())...), jobsOf(hpack.Spec())...)
	outcomes := make([]Outcome, len(jobs))
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for index := range jobs {
		running.Add(1)
		places <- struct{}{}
		go func() {
			defer running.Done()
			outcomes[index] = run(jobs[index], c)
			<-places
		}()
	}
	running.Wait()
	lines := json.NewEncoder(os.Stdout)
	for _, outcome := range outcomes {
		if err := lines.Encode(outcome); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
