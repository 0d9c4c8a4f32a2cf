package iopolicy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// windowed returns a pass inside a window without charges, so that it never sleeps, and with a small bound.
func windowed(t *testing.T) *iopolicy.Pass {
	settings := iopolicy.DefaultSettings()
	settings.MaxIOSize = 4096
	gate := iopolicy.New(iopolicy.Config{Settings: settings, Metering: iopolicy.Metering{Meter: nothing{}}})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Throttle))
	held, err := gate.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(t.Context(), iopolicy.Op{Certain: true})
	require.NoError(t, err)
	t.Cleanup(func() { held.End(0) })
	require.Equal(t, 4096, pass.Bound())
	return pass
}

// spy counts the sizes of requests.
type spy struct {
	*os.File
	sizes []int
}

func (s *spy) note(p []byte) { s.sizes = append(s.sizes, len(p)) }

func (s *spy) Read(p []byte) (int, error) {
	s.note(p)
	return s.File.Read(p)
}

func (s *spy) ReadAt(p []byte, off int64) (int, error) {
	s.note(p)
	return s.File.ReadAt(p, off)
}

func (s *spy) Write(p []byte) (int, error) {
	s.note(p)
	return s.File.Write(p)
}

func (s *spy) WriteAt(p []byte, off int64) (int, error) {
	s.note(p)
	return s.File.WriteAt(p, off)
}

func scratch(t *testing.T) *spy {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return &spy{File: f}
}

// TestAdaptersCannotBeBypassed: whatever method an adapter has was written for it, and none leads to the descriptor.
func TestAdaptersCannotBeBypassed(t *testing.T) {
	methods := map[any][]string{
		&iopolicy.Reader{}: {"Read"},
		&iopolicy.Writer{}: {"Write"},
		&iopolicy.File{}:   {"Close", "Read", "ReadAt", "Seek", "Sync", "Write", "WriteAt"},
	}
	for adapter, want := range methods {
		typ := reflect.TypeOf(adapter)
		var got []string
		for i := range typ.NumMethod() {
			got = append(got, typ.Method(i).Name)
		}
		require.Equal(t, want, got, "%v", typ)
		for i := range typ.Elem().NumField() {
			field := typ.Elem().Field(i)
			require.False(t, field.Anonymous || field.IsExported(), "%v.%s", typ, field.Name)
		}
		_, to := adapter.(io.WriterTo)
		_, from := adapter.(io.ReaderFrom)
		require.False(t, to || from, "%v", typ)
	}
}

// TestCopyGoesThroughTheGate: io.Copy between two files would let the kernel copy through their own methods. It moves
// every byte through the gate instead, in small operations inside a window.
func TestCopyGoesThroughTheGate(t *testing.T) {
	data := bytes.Repeat([]byte("tide"), 50_000)
	for _, pass := range []*iopolicy.Pass{windowed(t), nil,
		iopolicy.New(iopolicy.Config{}).Pass(iopolicy.NewClient(iopolicy.Throttle))} {
		from, to := scratch(t), scratch(t)
		require.NoError(t, os.WriteFile(from.Name(), data, 0o600))
		source, target := iopolicy.NewFile(t.Context(), from, pass), iopolicy.NewFile(t.Context(), to, pass)
		n, err := io.Copy(target, source)
		require.NoError(t, err)
		require.NoError(t, target.Sync())
		require.EqualValues(t, len(data), n)
		got, err := os.ReadFile(to.Name())
		require.NoError(t, err)
		require.Equal(t, data, got)
		if pass == nil {
			continue
		}
		stats := pass.Gate().Stats()
		require.Equal(t, iopolicy.Bytes{Read: uint64(len(data)), Written: uint64(len(data))}, stats.Moved)
		if bound := pass.Bound(); bound > 0 {
			require.Equal(t, bound, slices.Max(from.sizes))
			require.Equal(t, bound, slices.Max(to.sizes))
		}
	}
}

func TestReaderIsAReader(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 2_000)
	pass := windowed(t)
	require.NoError(t, iotest.TestReader(iopolicy.NewReader(t.Context(), bytes.NewReader(data), pass), data))
	f := scratch(t)
	require.NoError(t, os.WriteFile(f.Name(), data, 0o600))
	require.NoError(t, iotest.TestReader(iopolicy.NewFile(t.Context(), f, pass), data)) // also ReaderAt and Seeker
}

func TestWriterCuts(t *testing.T) {
	pass := windowed(t)
	f := scratch(t)
	w := iopolicy.NewFile(t.Context(), f, pass)
	n, err := w.WriteAt(bytes.Repeat([]byte{7}, 10_000), 3)
	require.NoError(t, err)
	require.Equal(t, 10_000, n)
	require.Equal(t, []int{4096, 4096, 1808}, f.sizes)
	p := make([]byte, 10_003)
	n, err = w.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, 10_003, n)
	require.Equal(t, append(make([]byte, 3), bytes.Repeat([]byte{7}, 10_000)...), p)
	n, err = w.ReadAt(p, 10_000)
	require.Equal(t, 3, n)
	require.ErrorIs(t, err, io.EOF)

	var out bytes.Buffer
	n, err = iopolicy.NewWriter(t.Context(), &out, pass).Write(p)
	require.NoError(t, err)
	require.Equal(t, len(p), n)
	require.Equal(t, p, out.Bytes())
	n, err = iopolicy.NewWriter(t.Context(), &out, pass).Write(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Sync(), os.ErrClosed)
}

// stingy accepts less than it is given without an error.
type stingy struct{ io.Reader }

func (stingy) Write(p []byte) (int, error) { return len(p) / 2, nil }

func TestAdaptersReturnFailures(t *testing.T) {
	pass := windowed(t)
	n, err := iopolicy.NewWriter(t.Context(), stingy{}, pass).Write(make([]byte, 10_000))
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.Equal(t, 2048, n)

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more")
	cancel(why)
	f := scratch(t)
	file := iopolicy.NewFile(ctx, f, pass)
	for name, do := range map[string]func() (int, error){
		"Reader.Read":  func() (int, error) { return iopolicy.NewReader(ctx, f, pass).Read(make([]byte, 1)) },
		"nil pass":     func() (int, error) { return iopolicy.NewReader(ctx, f, nil).Read(make([]byte, 1)) },
		"Writer.Write": func() (int, error) { return iopolicy.NewWriter(ctx, f, pass).Write(make([]byte, 1)) },
		"File.Read":    func() (int, error) { return file.Read(make([]byte, 1)) },
		"File.ReadAt":  func() (int, error) { return file.ReadAt(make([]byte, 1), 0) },
		"File.Write":   func() (int, error) { return file.Write(make([]byte, 1)) },
		"File.WriteAt": func() (int, error) { return file.WriteAt(make([]byte, 1), 0) },
		"File.Sync":    func() (int, error) { return 0, file.Sync() },
	} {
		n, err := do()
		require.ErrorIs(t, err, why, name)
		require.Zero(t, n, name)
	}
	require.Empty(t, f.sizes, "no I/O after the end")
	require.NoError(t, file.Close())
}
