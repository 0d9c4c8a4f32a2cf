package sftp_test

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/test/sftptest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// line is a long line to servers: requests wait until no more come, then all of them are answered. So the number of
// releases is how many answers the client waited for one after the other.
type line struct {
	mu      sync.Mutex
	waiting []func() // send a request, and return when its answer is there
	deliver []func() // pass an answer on
	timer   *time.Timer
	turns   int
}

// calm is how long no request may come before those that wait are sent: far longer than what a client does in between.
const calm = 25 * time.Millisecond

// through connects a client to a server by the line.
func (l *line) through(in io.WriteCloser, out io.Reader) (io.WriteCloser, io.Reader) {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	go func() {
		defer func() { _, _ = in.Close(), toClient.Close() }()
		for {
			request, err := message(fromClient)
			if err != nil {
				return
			}
			l.ask(func() error {
				_, err := in.Write(request)
				return err
			}, func() ([]byte, error) { return message(out) }, toClient)
		}
	}()
	return toServer, fromServer
}

// message reads a message and its length.
func message(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	m := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(m, length[:])
	_, err := io.ReadFull(r, m[4:])
	return m, err
}

// ask queues a request.
func (l *line) ask(send func() error, receive func() ([]byte, error), to *io.PipeWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, func() {
		answer, err := []byte(nil), send()
		if err == nil {
			answer, err = receive()
		}
		l.deliver = append(l.deliver, func() {
			if err != nil {
				_ = to.CloseWithError(err)
				return
			}
			_, _ = to.Write(answer)
		})
	})
	if l.timer == nil {
		l.timer = time.AfterFunc(calm, l.release)
	}
	l.timer.Reset(calm)
}

// release sends all requests, and then passes on all answers.
func (l *line) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns++
	for _, send := range l.waiting {
		send()
	}
	all := l.deliver
	l.waiting, l.deliver = nil, nil
	go func() {
		for _, pass := range all {
			pass()
		}
	}()
}

// settle waits until nothing is on the line. What runs in the background is no part of an operation.
func (l *line) settle() { time.Sleep(4 * calm) }

// took returns how many turns fn takes.
func (l *line) took(t *testing.T, fn func() error) int {
	t.Helper()
	l.settle()
	l.mu.Lock()
	before := l.turns
	l.mu.Unlock()
	require.NoError(t, fn())
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns - before
}

// TestTurnsOfEachOperation: over a long line the answers that wait for one another decide how long a backup takes.
// Nothing is read beyond the end of a file, and the look whether an empty folder is that of the repository is sent
// beside the listing.
func TestTurnsOfEachOperation(t *testing.T) {
	testkit.Slow(t)
	l := &line{}
	folder := filepath.Join(t.TempDir(), "repository")
	st, err := sftp.Create(t.Context(), sftp.Target{Host: "here", Path: folder},
		sftp.Options{}.Through(sftptest.Program(t), l.through))
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	ctx := t.Context()
	config, pack := store.Name{Kind: store.Config}, store.Name{Kind: store.Pack, ID: "ab02"}
	list := func(kind store.Kind, want int) func() error {
		return func() error {
			n := 0
			for _, err := range st.List(ctx, kind) {
				if err != nil {
					return err
				}
				n++
			}
			require.Equal(t, want, n)
			return nil
		}
	}
	small, large := storetest.Pattern(500, 1), storetest.Pattern(1<<20, 2)
	put := func(name store.Name, data []byte) func() error {
		return func() error { return st.Put(ctx, name, data) }
	}
	take := func(ctx context.Context, id string) func() error {
		return func() error {
			_, err := st.PutNew(ctx, store.Name{Kind: store.Lease, ID: id}, small)
			return err
		}
	}
	require.NoError(t, put(config, small)())
	require.NoError(t, list(store.Mark, 0)()) // it remembers the config
	for _, step := range []struct {
		what string
		most int
		do   func() error
	}{
		{"list no marks", 4, list(store.Mark, 0)},
		{"list no packs", 4, list(store.Pack, 0)},
		{"put the first pack", 6, put(pack, large)},
		{"put a pack", 5, put(pack, large)},
		{"put a snapshot", 5, put(store.Name{Kind: store.Snapshot, ID: "0a"}, small)},
		{"list snapshots", 4, list(store.Snapshot, 1)},
		{"list packs", 8, list(store.Pack, 1)},
		{"take a name", 5, take(ctx, "0c")},
		{"take a name for a moment", 3, take(store.Passing(ctx), "0d")},
		{"get", 2, func() error { return st.Get(ctx, config, 0, make([]byte, 500)) }},
		{"remove a lease", 1, func() error { return st.Delete(ctx, store.Name{Kind: store.Lease, ID: "0c"}) }},
	} {
		n := l.took(t, step.do)
		t.Logf("%s: %d", step.what, n)
		require.LessOrEqual(t, n, step.most, step.what)
	}
	got, err := os.ReadFile(filepath.Join(folder, pack.Path()))
	require.NoError(t, err)
	require.Equal(t, large, got)
}
