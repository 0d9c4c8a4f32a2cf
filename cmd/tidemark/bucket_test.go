package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

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
