package smb_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestServersThatAreNone: the listener is frozen, or speaks another protocol. The message names the cause.
func TestServersThatAreNone(t *testing.T) {
	testkit.Slow(t)
	for name, c := range map[string]struct {
		serve func(c net.Conn)
		says  string
	}{
		"frozen": {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "takes connections on port"},
		"a web server": {func(c net.Conn) {
			_, _ = bufio.NewReader(c).ReadByte()
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		}, "is not an SMB server"},
		"an SSH server": {func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n") }, "is not an SMB server"},
		"small frames": {func(c net.Conn) { _, _ = c.Write(append([]byte{0, 0, 0, 100}, make([]byte, 100)...)) },
			"is not an SMB server"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close()) }()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						c.serve(conn)
						_ = conn.Close()
					}()
				}
			}()
			_, err = smb.Open(t.Context(), smb.Target{User: "me", Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port,
				Share: "x"},
				smb.Options{Credentials: password("p"), Patience: smb.Patience{Request: 500 * time.Millisecond}})
			require.ErrorContains(t, err, c.says)
			require.ErrorIs(t, err, store.ErrGone)
		})
	}
}
