package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// TestShare runs testdata/share: what docs/smb.md promises, against a real Samba. SHARE is a folder on the share for
// this script alone, not made yet, ONSHARE the same for this machine, BLINKING the same behind a line that breaks four
// times in the middle of a write, CLOSED a port without a listener, and SERVER the beginning of every address.
func TestShare(t *testing.T) {
	server := smbtest.Start(t, smbtest.Config{})
	closed := closedPort(t)
	line := smbtest.NewProxy(t, server.Addr(), 0)
	var writes, cuts atomic.Int64
	line.Filter(func(f *smbtest.Frame) smbtest.Verdict {
		if f.ToServer && len(f.Data) > 64<<10 && writes.Add(1)%17 == 0 && cuts.Add(1) <= 4 {
			return smbtest.Cut
		}
		return smbtest.Pass
	})
	scriptsInMemory(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/share",
		Setup: func(env *testscript.Env) error {
			name := filepath.Base(env.WorkDir)
			address := "smb://" + server.User + "@127.0.0.1:" + strconv.Itoa(server.Port)
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("TZ", "UTC")
			env.Setenv("TIDEMARK_POLICY", "important")
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir+"/run")
			env.Setenv("USER", server.User)
			env.Setenv("SERVER", address)
			env.Setenv("SHARE", address+"/"+smbtest.Share+"/"+name)
			env.Setenv("ONSHARE", filepath.Join(server.Folder, name))
			env.Setenv("BLINKING", "smb://"+server.User+"@127.0.0.1:"+strconv.Itoa(line.Port)+"/"+smbtest.Share+"/"+name)
			env.Setenv("CLOSED", "127.0.0.1:"+strconv.Itoa(closed))
			env.Setenv("FOLDER", name)
			env.Setenv("PORT", strconv.Itoa(server.Port))
			return errors.Join(os.Mkdir(env.WorkDir+"/home", 0o700), os.Mkdir(env.WorkDir+"/run", 0o700),
				os.WriteFile(env.WorkDir+"/nas-password", []byte(smbtest.Password+"\n"), 0o600))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "jsonl": jsonl, "capture": capture, "waitfor": waitFor,
			"blinked": func(ts *testscript.TestScript, _ bool, _ []string) {
				if cuts.Load() < 4 || line.Accepted() < 5 {
					ts.Fatalf("the line broke %d times in %d writes, on %d connections", cuts.Load(), writes.Load(), line.Accepted())
				}
			},
		},
	})
}

// closedPort returns a port that refuses connections until the test is over: it is bound without a listener.
func closedPort(t *testing.T) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(fd)) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	at, ok := name.(*syscall.SockaddrInet4)
	require.True(t, ok)
	return at.Port
}
