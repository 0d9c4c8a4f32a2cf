package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
)

// TestSFTP runs testdata/sftp: what docs/stores.md promises, against a real sshd. ADDRESS is a folder on the server for
// this script alone, and FOLDER the same for this machine.
func TestSFTP(t *testing.T) {
	server := sftptest.Start(t)
	scriptsInMemory(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/sftp",
		Setup: func(env *testscript.Env) error {
			folder := filepath.Join(server.Folder, filepath.Base(env.WorkDir))
			for key, value := range map[string]string{
				"HOME": env.WorkDir + "/home", "TZ": "UTC", "TIDEMARK_POLICY": "important",
				"XDG_RUNTIME_DIR": env.WorkDir + "/run", "USER": "me", "FOLDER": folder,
				"ADDRESS": "sftp://" + server.Host + folder,
				"PATH":    server.Bin + ":" + env.Getenv("PATH"),
			} {
				env.Setenv(key, value)
			}
			return errors.Join(os.Mkdir(env.WorkDir+"/home", 0o700), os.Mkdir(env.WorkDir+"/run", 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "jsonl": jsonl, "capture": capture, "waitfor": waitFor,
		},
	})
}
