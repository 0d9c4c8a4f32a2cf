package session

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// The buffers of a session's connection are what was requested, read back from the kernel. Without a request the
// system's are left.
func TestBuffersOfTheConnection(t *testing.T) {
	server := smbtest.Start(t, smbtest.Config{})
	login := Login{Host: server.Host, Port: server.Port, Share: smbtest.Share, User: server.User,
		Password: smbtest.Password,
		Patience: 10 * time.Second, Idle: time.Minute}
	usual := sizes(t, login)
	for _, size := range []int{16 << 10, 63 << 10, 100 << 10} {
		login.TCP = TCP{Window: size, Reduced: func(int) { t.Errorf("%d bytes were not granted", size) }}
		require.Equal(t, [2]int{size, size}, sizes(t, login))
	}
	login.TCP = TCP{}
	require.Equal(t, usual, sizes(t, login))
}

func sizes(t *testing.T, l Login) [2]int {
	s, err := dial(t.Context(), l)
	require.NoError(t, err)
	defer s.kill(ErrClosed)
	send, receive, err := buffers(s.wire.Conn)
	require.NoError(t, err)
	return [2]int{send, receive}
}

// A buffer that the system does not grant is reported with what it grants.
func TestBuffersThatAreNotGranted(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	granted := 0
	conn, err := TCP{Window: 1 << 30, Reduced: func(n int) { granted = n }}.connect(context.Background(),
		listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	send, receive, err := buffers(conn)
	require.NoError(t, err)
	require.Equal(t, min(send, receive), granted)
	require.Positive(t, granted)
	require.Less(t, granted, 1<<30)
}

// recording is a connection that records the length of each write.
type recording struct {
	net.Conn
	bytes.Buffer
	writes []int
}

func (r *recording) Write(p []byte) (int, error) {
	r.writes = append(r.writes, len(p))
	return r.Buffer.Write(p)
}

func (r *recording) Read(p []byte) (int, error) { return r.Buffer.Read(p) }

// No write is longer than the write buffer, and the frame arrives whole.
func TestWriteBuffer(t *testing.T) {
	frame := bytes.Repeat([]byte("0123456789abcdef"), 10_000)
	for _, step := range []int{1 << 10, 32 << 10, 512 << 10} {
		r := &recording{}
		w := newWire(r, AsOffered, false)
		w.step = step
		header := []byte{0, 2, 0x71, 0}
		_, err := w.Write(header)
		require.NoError(t, err)
		n, err := w.Write(frame)
		require.NoError(t, err)
		require.Equal(t, len(frame), n)
		require.Equal(t, append(header, frame...), r.Bytes())
		for _, one := range r.writes {
			require.LessOrEqual(t, one, step)
		}
		require.Len(t, r.writes, 1+(len(frame)+step-1)/step, "the header and the steps")
	}
}
