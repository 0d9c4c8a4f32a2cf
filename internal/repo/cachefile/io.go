package cachefile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// cut returns the part of p that one operation may move.
func cut(p []byte, maxIO int) []byte {
	if maxIO > 0 {
		return p[:min(maxIO, len(p))]
	}
	return p
}

// TempFile is a file without a name. It disappears when it is closed or the process ends. It needs no durability, but
// under a yielding policy it is flushed as it is written. Otherwise the kernel would write it back seconds later, when
// the I/O can no longer be attributed to this run.
type TempFile struct {
	io localfs.IOContext
	f  *os.File
}

// OpenTempFile creates an empty file in folder dir, which is created if it is missing.
func OpenTempFile(dir string, io localfs.IOContext) (*TempFile, error) {
	var f *os.File
	err := io.Names(func() (err error) {
		if err = os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if f, err = os.CreateTemp(dir, "cache-*.tmp"); err != nil {
			return err
		}
		if err = os.Remove(f.Name()); err != nil {
			return errors.Join(err, f.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	return &TempFile{io, f}, nil
}

// ReadAt reads all of p.
func (t *TempFile) ReadAt(p []byte, off int64) (done int, err error) {
	for done < len(p) && err == nil {
		n := 0
		n, err = t.io.Do(iopolicy.Op{Kind: iopolicy.Read, Bytes: len(p) - done}, func(maxIO int) (int, error) {
			return t.f.ReadAt(cut(p[done:], maxIO), off+int64(done))
		})
		done += n
	}
	return done, err
}

// WriteAt writes all of p.
func (t *TempFile) WriteAt(p []byte, off int64) (done int, err error) {
	for done < len(p) && err == nil {
		n := 0
		n, err = t.io.Do(iopolicy.Op{Kind: iopolicy.Write, Bytes: len(p) - done}, func(maxIO int) (int, error) {
			n, err := t.f.WriteAt(cut(p[done:], maxIO), off+int64(done))
			if err == nil {
				err = t.io.Push(t.f, off+int64(done), int64(n), maxIO > 0)
			}
			return n, err
		})
		done += n
	}
	return done, err
}

// Reading runs read as one gate operation. Inside it, and inside File.Update, Raw is read.
func (t *TempFile) Reading(read func() error) error {
	_, err := t.io.Do(iopolicy.Op{Kind: iopolicy.Read}, func(int) (int, error) { return 0, read() })
	return err
}

// Raw reads the file within an operation that the gate has admitted already; a nested operation could wait for itself.
func (t *TempFile) Raw() io.ReaderAt { return t.f }

// Close releases the file.
func (t *TempFile) Close() error { return t.f.Close() }

const prefetchPiece = 1 << 20

// Prefetch reads the file sequentially into the page cache before many lookups. Otherwise each lookup would fetch pages
// at random by page faults, which block an OS thread of the Go runtime. Errors are ignored: the lookup reports them.
func (f *File) Prefetch() {
	st, err := f.file.Stat()
	if err != nil || st.Size() == 0 {
		return
	}
	buf := make([]byte, min(prefetchPiece, st.Size()))
	for at := int64(0); at < st.Size(); {
		n, err := f.io.Do(iopolicy.Op{Kind: iopolicy.Read, Bytes: len(buf)}, func(maxIO int) (int, error) {
			n, err := f.file.ReadAt(cut(buf, maxIO), at)
			if n > 0 && errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		})
		if err != nil || n == 0 {
			return
		}
		at += int64(n)
	}
}
