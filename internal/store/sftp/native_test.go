package sftp_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// withoutSSH makes this process one of a machine without the ssh program.
func withoutSSH(t *testing.T, home string) {
	t.Setenv("PATH", "/nowhere")
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", "")
}

func onAddress(s *sftptest.Server, folder string) sftp.Target {
	return sftp.Target{Host: "127.0.0.1", Port: s.Port(), Path: folder}
}

// own opens a store by the client in this program.
func own(t *testing.T, s *sftptest.Server, folder string) *sftp.Store {
	t.Helper()
	st, err := sftp.Create(t.Context(), onAddress(s, folder), sftp.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestContractWithoutAProgram(t *testing.T) {
	testkit.Slow(t)
	server := sftptest.Start(t)
	withoutSSH(t, server.Home("host"))
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		return own(t, server, filepath.Join(server.Folder, strconv.FormatInt(n.Add(1), 10)))
	})
}

// TestEachFailureWithoutAProgramSaysWhatToDo: advice names nothing that a machine without ssh lacks.
func TestEachFailureWithoutAProgramSaysWhatToDo(t *testing.T) {
	s := sftptest.Start(t)
	home := s.Home("host")
	for name, c := range map[string]struct {
		before, after func()
		home          string
		target        sftp.Target
		want          string
		kind          error
	}{
		"unknown host key": {home: s.Home(""), want: "add its line to ~/.ssh/known_hosts", kind: store.ErrDenied},
		"changed host key": {home: s.Home("other"), want: "the host key of 127.0.0.1 has changed", kind: store.ErrDenied},
		"no key": {before: func() { s.Accept(false) }, after: func() { s.Accept(true) },
			want: "start an agent or put a key without a passphrase into ~/.ssh", kind: store.ErrDenied},
		"no such host": {target: sftp.Target{Host: "no-such-host.invalid"}, want: "~/.ssh/config is not read",
			kind: store.ErrGone},
		"no server": {before: s.Kill, after: s.Run, want: "refuses connections", kind: store.ErrGone},
		"no SFTP": {before: func() { offer(s, false) }, after: func() { offer(s, true) },
			want: "add 'Subsystem sftp internal-sftp'", kind: store.ErrDenied},
		"no folder": {target: onAddress(s, s.Folder+"/none"), want: "no such file", kind: store.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			if c.before != nil {
				c.before()
				defer c.after()
			}
			if c.home == "" {
				c.home = home
			}
			if c.target.Host == "" {
				c.target = onAddress(s, s.Folder)
			}
			withoutSSH(t, c.home)
			_, err := sftp.Open(t.Context(), c.target, sftp.Options{})
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, c.kind)
			require.NotContains(t, err.Error(), "'ssh ", "there is no such program")
			require.NotErrorIs(t, err, store.ErrTemporary, "a mistake at the beginning is reported at once")
		})
	}
}

// TestOddKeysAndHosts: a silent agent, an agent with many keys, and lines of known_hosts that are not understood keep
// no one out. A revoked host key does.
func TestOddKeysAndHosts(t *testing.T) {
	testkit.Slow(t)
	s := sftptest.Start(t)
	home := s.Home("host")
	known := filepath.Join(home, ".ssh/known_hosts")
	right, err := os.ReadFile(known)
	require.NoError(t, err)
	odd := "nonsense\nold ssh-dss AAAAB3NzaC1kc3MAAACBAP\n# comment\n\n" + string(right)
	require.NoError(t, os.WriteFile(known, []byte(odd), 0o600))
	silent, err := net.Listen("unix", filepath.Join(home, "silent"))
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	withoutSSH(t, home)
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(home, "silent"))
	begin := time.Now()
	require.NoError(t, own(t, s, s.Folder).Put(t.Context(), storetest.Names()[2], []byte("x")))
	require.Less(t, time.Since(begin), 14*time.Second)

	ring := agent.NewKeyring()
	for range 8 {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		require.NoError(t, err)
		require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	}
	t.Setenv("SSH_AUTH_SOCK", serve(t, ring))
	require.NoError(t, own(t, s, s.Folder).Put(t.Context(), storetest.Names()[2], []byte("y")))

	require.NoError(t, os.WriteFile(known, append([]byte("@revoked "), right...), 0o600))
	_, err = sftp.Open(t.Context(), onAddress(s, s.Folder), sftp.Options{})
	require.ErrorContains(t, err, "is revoked")
	require.ErrorIs(t, err, store.ErrDenied)
}

// serve starts an agent, and returns its socket.
func serve(t *testing.T, ring agent.Agent) string {
	at := filepath.Join(t.TempDir(), "agent")
	socket, err := net.Listen("unix", at)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	go func() {
		for {
			c, err := socket.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, c) }()
		}
	}()
	return at
}

// TestARestartIsRiddenOutWithoutAProgram kills the server, with all connections, before each operation.
func TestARestartIsRiddenOutWithoutAProgram(t *testing.T) {
	testkit.Slow(t)
	s := sftptest.Start(t)
	withoutSSH(t, s.Home("host"))
	st := patient(own(t, s, s.Folder))
	for i := range 5 {
		name := store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x", 2*i)}
		want, got := storetest.Pattern(300_000, uint64(i)), make([]byte, 300_000)
		s.Kill()
		s.Run()
		require.NoError(t, st.Put(t.Context(), name, want))
		s.Kill()
		s.Run()
		require.NoError(t, st.Get(t.Context(), name, 0, got))
		require.True(t, bytes.Equal(want, got))
	}
}

// TestAKeyOfAnAgentOpens: the folder of the user has none that the server accepts. The host is known by a key that the
// server would not show first.
func TestAKeyOfAnAgentOpens(t *testing.T) {
	s := sftptest.Start(t)
	home := s.Home("host")
	text, err := os.ReadFile(filepath.Join(home, ".ssh/id_ed25519"))
	require.NoError(t, err)
	key, err := ssh.ParseRawPrivateKey(text)
	require.NoError(t, err)
	ring := agent.NewKeyring()
	require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	require.NoError(t, os.Remove(filepath.Join(home, ".ssh/id_ed25519")))
	withoutSSH(t, home)
	_, err = sftp.Open(t.Context(), onAddress(s, s.Folder), sftp.Options{})
	require.ErrorIs(t, err, store.ErrDenied, "no key")
	t.Setenv("SSH_AUTH_SOCK", serve(t, ring))
	require.NoError(t, own(t, s, s.Folder).Put(t.Context(), storetest.Names()[2], []byte("x")))

	// A server with two keys; known_hosts has the second.
	second, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	s.AddHostKey(second)
	public, err := ssh.NewPublicKey(&second.PublicKey)
	require.NoError(t, err)
	line := fmt.Sprintf("[127.0.0.1]:%d %s", s.Port(), ssh.MarshalAuthorizedKey(public))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".ssh/known_hosts"), []byte(line), 0o600))
	require.NoError(t, own(t, s, s.Folder).Put(t.Context(), storetest.Names()[2], []byte("y")))
}
