package smb_test

import (
	"maps"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// readable requires a message without what only a programmer understands.
func readable(t *testing.T, err error, what string) {
	t.Helper()
	for _, odd := range []string{"%", "{", "EOF", "response error", "expected status", "delete pending"} {
		require.NotContains(t, err.Error(), odd, what)
	}
}

// TestStatusesOfAServer: a real server's answer is replaced by an error. The library's texts of some have blanks such
// as "%hs", which the server should fill in and does not.
func TestStatusesOfAServer(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	patience := smb.Patience{Outage: -1}
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Parallel: of(1), Patience: patience})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("c")))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	statuses := map[uint32]string{ // from [MS-ERREF] 2.3.1
		0xC000000F: "file not found", 0xC0000013: "no disk", 0xC00000A2: "write protect error",
		0xC00000A3: "drive not ready", 0xC00000B5: "device timeout", 0xC0000102: "corrupt file",
		0xC0000222: "delayed write failed", 0xC000013C: "virtual circuit closed",
	}
	refuse := func(command uint16, status uint32) {
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(command, false) && !f.Pending() {
				f.Refuse(status)
			}
			return smbtest.Pass
		})
	}
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		for _, command := range []uint16{negotiate, setup} {
			refuse(command, status)
			_, err := smb.Open(t.Context(), through(p, s),
				smb.Options{Protection: smb.AsOffered, Credentials: password(smbtest.Password)})
			readable(t, err, statuses[status])
			require.ErrorContains(t, err, statuses[status])
		}
		for _, command := range []uint16{smbtest.Create, smbtest.Write, smbtest.Flush} {
			refuse(command, status)
			err := st.Put(t.Context(), pack(2), []byte("x"))
			readable(t, err, statuses[status])
			require.ErrorContains(t, err, statuses[status])
		}
	}
}

// TestAllIsBeingRemoved: a server answers "delete pending" to each request for a file, the config included. It is the
// repository that is missing then. Asking for the config because of such an answer about the config would not end.
func TestAllIsBeingRemoved(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	p := smbtest.NewProxy(t, s.Addr(), 0)
	st := create(t, through(p, s), smb.Options{Protection: smb.AsOffered, Parallel: of(1),
		Patience: smb.Patience{Outage: -1}})
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Config}, []byte("c")))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	pending := func(only int) { // of the requests to create; 0: all
		n := 0
		p.Filter(func(f *smbtest.Frame) smbtest.Verdict {
			if f.Is(smbtest.Create, false) {
				if n++; only == 0 || n == only {
					f.Refuse(0xC0000056)
				}
			}
			return smbtest.Pass
		})
	}
	look := map[string]func() error{
		"get":    func() error { return st.Get(t.Context(), pack(1), 0, make([]byte, 1)) },
		"stat":   func() error { _, err := st.Stat(t.Context(), pack(1)); return err },
		"delete": func() error { return st.Delete(t.Context(), pack(1)) },
		"put":    func() error { return st.Put(t.Context(), pack(3), []byte("x")) },
		"list": func() error {
			for _, err := range st.List(t.Context(), store.Snapshot) {
				return err
			}
			return nil
		},
	}
	for what, do := range look {
		pending(0)
		err := do()
		require.ErrorIs(t, err, store.ErrGone, what)
		readable(t, err, what)
		p.Filter(always(smbtest.Pass))
	}
	pending(1)
	require.NoError(t, look["stat"](), "it is asked again before a file counts as missing")
}

// TestFirewallDropsThePort: no answer to a connection at all. The queue of the listener is full, so the kernel drops
// what comes.
func TestFirewallDropsThePort(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Close(fd)) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}
	for range 8 { // fills the queue
		c, err := net.DialTimeout("tcp", at.String(), 50*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	_, err = smb.Open(t.Context(), smb.Target{User: "me", Host: "127.0.0.1", Port: at.Port, Share: "backup"},
		smb.Options{Credentials: password("x"), Patience: smb.Patience{Request: time.Second}})
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "127.0.0.1 does not answer on port")
	require.ErrorContains(t, err, "firewall")
	readable(t, err, "")
}
