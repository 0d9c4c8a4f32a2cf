package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
)

// TestBucket runs testdata/bucket: what docs/stores.md promises, against a real versitygw over TLS. BUCKET is a prefix
// in a bucket for this script alone, INBUCKET the same for this machine, and SERVER the beginning of every address.
func TestBucket(t *testing.T) {
	server := s3test.Start(t)
	scriptsInMemory(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/bucket",
		Setup: func(env *testscript.Env) error {
			name := filepath.Base(env.WorkDir)
			for key, value := range map[string]string{
				"HOME": env.WorkDir + "/home", "TZ": "UTC", "TIDEMARK_POLICY": "important",
				"XDG_RUNTIME_DIR": env.WorkDir + "/run", "USER": "me", "AWS_EC2_METADATA_DISABLED": "true",
				"SERVER": "s3://" + server.Addr, "BUCKET": "s3://" + server.Addr + "/" + s3test.Bucket + "/" + name,
				"INBUCKET": filepath.Join(server.Folder, s3test.Bucket, name), "CA": server.CAFile(),
			} {
				env.Setenv(key, value)
			}
			keys := "[default]\naws_access_key_id = " + s3test.ID + "\naws_secret_access_key = " + s3test.Secret + "\n"
			return errors.Join(os.Mkdir(env.WorkDir+"/home", 0o700), os.Mkdir(env.WorkDir+"/run", 0o700),
				os.WriteFile(env.WorkDir+"/keys", []byte(keys), 0o600))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "jsonl": jsonl, "capture": capture, "waitfor": waitFor,
		},
	})
}

// TestRequests runs testdata/requests against a server that counts, and after init refuses each twentieth request. The
// command counted compares the summary on standard output with what the server has seen since the command before.
func TestRequests(t *testing.T) {
	fake := s3test.NewFake(t)
	scriptsInMemory(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/requests",
		Setup: func(env *testscript.Env) error {
			for key, value := range map[string]string{
				"HOME": env.WorkDir + "/home", "TZ": "UTC", "TIDEMARK_POLICY": "important",
				"XDG_RUNTIME_DIR": env.WorkDir + "/run", "USER": "me", "AWS_ACCESS_KEY_ID": "x",
				"AWS_SECRET_ACCESS_KEY": "x", "TIDEMARK_S3_TLS": "no", "TIDEMARK_PASSWORD": "secret",
				"TIDEMARK_REPOSITORY": "s3://" + fake.Addr + "/" + s3test.Bucket + "/p",
			} {
				env.Setenv(key, value)
			}
			return errors.Join(os.Mkdir(env.WorkDir+"/home", 0o700), os.Mkdir(env.WorkDir+"/run", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "near": near,
			"counted": func(ts *testscript.TestScript, _ bool, args []string) {
				seen := fake.Served()
				if len(args) > 0 { // what was made is not compared
					n := 0
					fake.Faults(func(*http.Request) s3test.Fault {
						if n++; n%20 == 0 {
							return s3test.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}
						}
						return s3test.Fault{}
					})
					return
				}
				var summary struct{ event.Figures }
				for line := range strings.Lines(ts.ReadFile("stdout")) {
					ts.Check(json.Unmarshal([]byte(line), &summary))
				}
				if summary.Requests == nil || *summary.Requests != (report.Requests{Put: seen[0], Get: seen[1], Delete: seen[2]}) {
					ts.Fatalf("reported %+v, the server saw %v", summary.Requests, seen)
				}
			},
		},
	})
}

// near compares the requests of the summary on standard output with the estimate of a run in a file that stats --cost
// has printed: at most half as many more or fewer, and two: near FILE RUN.
func near(ts *testscript.TestScript, _ bool, args []string) {
	var estimates event.Statistics
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &estimates))
	var summary struct{ event.Figures }
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		ts.Check(json.Unmarshal([]byte(line), &summary))
	}
	for _, run := range estimates.Costs {
		if run.Name != args[1] {
			continue
		}
		was := summary.Requests
		ts.Logf("estimated %+v and %d bytes, was %+v and %d", run.Requests, run.Out, *was, summary.Bytes.Fetched)
		for _, pair := range [][2]uint64{{run.Requests.Put, was.Put}, {run.Requests.Get, was.Get},
			{run.Requests.Delete, was.Delete}} {
			if pair[0] > pair[1]*3/2+2 || pair[1] > pair[0]*3/2+2 {
				ts.Fatalf("estimated %d requests, there were %d", pair[0], pair[1])
			}
		}
		return
	}
	ts.Fatalf("no estimate of %s", args[1])
}
