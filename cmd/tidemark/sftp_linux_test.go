package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestSFTP runs testdata/sftp: what docs/stores.md promises, against a real sshd. ADDRESS is a folder on the server for
// this script alone, and FOLDER the same for this machine.
func TestSFTP(t *testing.T) {
	testkit.Slow(t)
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

// TestAFrozenServerIsSaidNotToAnswer stops the server in the middle of a backup, for some seconds.
func TestAFrozenServerIsSaidNotToAnswer(t *testing.T) {
	testkit.Slow(t)
	server := sftptest.Start(t)
	s := newStage(t)
	s.env = append(s.env, "PATH="+server.Bin+":"+os.Getenv("PATH"),
		"TIDEMARK_REPOSITORY=sftp://"+server.Host+server.Folder+"/repo")
	s.do("init", "--password-file", s.at("password"))
	var out bytes.Buffer
	run := exec.Command("tidemark", s.backup("--json", "--limit-upload", "500K")...)
	run.Env, run.Stdout = s.env, &out
	require.NoError(t, run.Start())
	s.await("an upload", func() bool {
		found, _ := filepath.Glob(server.Folder + "/repo/packs/tmp-*")
		return len(found) > 0
	})
	server.Freeze()
	s.await("the status", func() bool {
		status, _ := s.ask("status", "--json")
		return strings.Contains(string(status), `"target_error":"tidemark-test-server is silent"`) &&
			strings.Contains(string(status), `"waiting_for":"an answer of the target"`)
	})
	server.Thaw()
	require.NoError(t, run.Wait())
	require.Regexp(t, `"target_away_seconds":([5-9]|[1-9][0-9])`, out.String())
}

// TestCtrlCEndsARunOverSSHInOrder sends SIGINT and SIGTERM to the whole process group, as a terminal does. The run
// still removes its lease, and leaves no socket.
func TestCtrlCEndsARunOverSSHInOrder(t *testing.T) {
	testkit.Slow(t)
	server := sftptest.Start(t)
	s := newStage(t)
	temp, err := os.MkdirTemp("", "ctrlc") // short enough for a socket
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(temp)) }()
	s.env = append(s.env, "PATH="+server.Bin+":"+os.Getenv("PATH"), "TMPDIR="+temp,
		"TIDEMARK_REPOSITORY=sftp://"+server.Host+server.Folder+"/repo")
	s.do("init", "--password-file", s.at("password"))
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		run := exec.Command("tidemark", s.backup("--limit-upload", "50K")...)
		run.Env, run.SysProcAttr = s.env, &syscall.SysProcAttr{Setpgid: true}
		require.NoError(t, run.Start())
		s.await("an upload", func() bool {
			found, _ := filepath.Glob(server.Folder + "/repo/packs/tmp-*")
			return len(found) > 0
		})
		begin := time.Now()
		require.NoError(t, syscall.Kill(-run.Process.Pid, sig))
		require.Error(t, run.Wait())
		require.Less(t, time.Since(begin), ends)
		for _, left := range []string{server.Folder + "/repo/leases/*", temp + "/*"} {
			found, err := filepath.Glob(left)
			require.NoError(t, err)
			require.Empty(t, found)
		}
	}
}
