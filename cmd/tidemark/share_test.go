package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/smb/smbtest"
)

// TestShare runs testdata/share: what docs/smb.md promises, against a real Samba. SHARE is a folder of a script's own on
// the share, not made yet, ONSHARE the same for this machine, and SERVER the beginning of every address.
func TestShare(t *testing.T) {
	server := smbtest.Start(t, smbtest.Config{})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	testscript.Run(t, testscript.Params{
		Dir: "testdata/share",
		Setup: func(env *testscript.Env) error {
			name := filepath.Base(env.WorkDir)
			address := "smb://" + server.User + "@127.0.0.1:" + strconv.Itoa(server.Port)
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("TZ", "UTC")
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/run")
			env.Setenv("USER", server.User)
			env.Setenv("SERVER", address)
			env.Setenv("SHARE", address+"/"+smbtest.Share+"/"+name)
			env.Setenv("ONSHARE", filepath.Join(server.Folder, name))
			env.Setenv("CLOSED", closed.Addr().String())
			env.Setenv("FOLDER", name)
			env.Setenv("PORT", strconv.Itoa(server.Port))
			return errors.Join(os.Mkdir(env.WorkDir+"/home", 0o700), os.Mkdir(env.WorkDir+"/run", 0o700),
				os.WriteFile(env.WorkDir+"/nas-password", []byte(smbtest.Password+"\n"), 0o600))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "jsonl": jsonl, "capture": capture},
	})
}
