package iopolicy

import (
	"context"
	"io"
)

// The adapters have only the methods declared here: no descriptor, and no WriterTo or ReaderFrom of the wrapped value,
// with which io.Copy would bypass the gate.

// Reader reads through a pass. It is as safe for concurrent use as its source.
type Reader struct {
	ctx  context.Context
	from io.Reader
	pass *Pass
}

// NewReader returns a Reader from r. Once ctx ends, reads return its cause. A nil pass admits everything.
func NewReader(ctx context.Context, r io.Reader, pass *Pass) *Reader { return &Reader{ctx, r, pass} }

// Read is one operation. Inside a window it reads no more than the bound, however large p is.
func (r *Reader) Read(p []byte) (int, error) {
	return r.pass.Do(r.ctx, Op{Kind: Read, Bytes: len(p)}, func(bound int) (int, error) {
		return r.from.Read(cut(p, bound))
	})
}

// Writer writes through a pass. It is as safe for concurrent use as its target, except for writes that are split.
type Writer struct {
	ctx  context.Context
	to   io.Writer
	pass *Pass
}

// NewWriter returns a Writer to w. Once ctx ends, writes return its cause. A nil pass admits everything.
func NewWriter(ctx context.Context, w io.Writer, pass *Pass) *Writer { return &Writer{ctx, w, pass} }

// Write is one operation, or several inside a window.
func (w *Writer) Write(p []byte) (int, error) {
	return pieces(w.ctx, w.pass, Write, p, func(piece []byte, _ int) (int, error) { return w.to.Write(piece) })
}

// Handle is the file that File wraps, such as an *os.File.
type Handle interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
}

// File reads and writes a file through a pass.
type File struct {
	ctx    context.Context
	handle Handle
	pass   *Pass
}

// NewFile returns a File around h, which it closes. Once ctx ends, everything but Seek and Close returns its cause. A
// nil pass admits everything.
func NewFile(ctx context.Context, h Handle, pass *Pass) *File { return &File{ctx, h, pass} }

// Read is one operation. Inside a window it reads no more than the bound, however large p is.
func (f *File) Read(p []byte) (int, error) {
	return f.pass.Do(f.ctx, Op{Kind: Read, Bytes: len(p)}, func(bound int) (int, error) {
		return f.handle.Read(cut(p, bound))
	})
}

// ReadAt is one operation, or several inside a window.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	return pieces(f.ctx, f.pass, Read, p, func(piece []byte, at int) (int, error) {
		return f.handle.ReadAt(piece, off+int64(at))
	})
}

// Write is one operation, or several inside a window.
func (f *File) Write(p []byte) (int, error) {
	return pieces(f.ctx, f.pass, Write, p, func(piece []byte, _ int) (int, error) { return f.handle.Write(piece) })
}

// WriteAt is one operation, or several inside a window.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	return pieces(f.ctx, f.pass, Write, p, func(piece []byte, at int) (int, error) {
		return f.handle.WriteAt(piece, off+int64(at))
	})
}

// Sync is one operation.
func (f *File) Sync() error {
	_, err := f.pass.Do(f.ctx, Op{Kind: Sync}, func(int) (int, error) { return 0, f.handle.Sync() })
	return err
}

// Seek does no I/O.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.handle.Seek(offset, whence) }

// Close closes the file at once, even after the context has ended. Durable contents need a Sync before.
func (f *File) Close() error { return f.handle.Close() }

// cut returns as much of p as a bound allows.
func cut(p []byte, bound int) []byte {
	if bound > 0 && len(p) > bound {
		return p[:bound]
	}
	return p
}

// pieces calls f for all of p, in operations as large as allowed. at is the offset of a piece in p.
func pieces(ctx context.Context, pass *Pass, kind Kind, p []byte, f func(piece []byte, at int) (int, error)) (int,
	error) {
	done := 0
	for {
		rest := p[done:]
		asked := 0
		n, err := pass.Do(ctx, Op{Kind: kind, Bytes: len(rest)}, func(bound int) (int, error) {
			piece := cut(rest, bound)
			asked = len(piece)
			return f(piece, done)
		})
		done += max(n, 0)
		switch {
		case err != nil || done == len(p):
			return done, err
		case n < asked && kind == Write:
			return done, io.ErrShortWrite
		case n <= 0 && kind == Read:
			return done, io.ErrNoProgress
		}
	}
}
