package localfs

import (
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Known is the file that the scan found under a name. Opening that file is cheaper; the result is the same for any
// other.
type Known struct {
	Dev, Ino uint64

	Times        bool // the rest is known too
	Size         uint64
	Mtime, Ctime tree.Time
}

// stat returns the known part of the status.
func (k *Known) stat() Stat {
	return Stat{Type: tree.File, Dev: k.Dev, Ino: k.Ino, Size: k.Size, Mtime: k.Mtime, Ctime: k.Ctime}
}

// Presumed reports whether the file was opened without fstat, because enough was known. What was read counts only if
// Same accepts the status that Facts returns afterwards. Otherwise the file must be opened again with a zero Known.
func (f *File) Presumed() bool { return f.presumed }

// Same reports whether st, read after the file's content, equals the status at the time of opening.
func (f *File) Same(st *Stat) bool {
	was := &f.opened
	return st.Type == tree.File && st.Dev == was.Dev && st.Ino == was.Ino && st.Size == was.Size &&
		st.Mtime == was.Mtime && st.Ctime == was.Ctime
}

// Confirm makes up for the fstat that was omitted when a presumed file was opened. ErrReplaced: it is another object or
// has changed.
func (f *File) Confirm() error {
	if !f.presumed {
		return nil
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !f.Same(&st) {
		return ErrReplaced
	}
	f.opened, f.presumed = st, false
	return nil
}

// Facts calls File.Facts for all files that ReadWhole has read. Several calls form one operation of the gate as long as
// they are answered from memory.
func (b *Batch) Facts(files []BatchFile) {
	b.facts.Most = MaxStatBatch
	for len(files) > 0 {
		ioctx := &files[0].File.ioctx
		grant, err := ioctx.begin(iopolicy.Metadata, 0)
		if err != nil {
			files[0].FactsErr = err
			files = files[1:]
			continue
		}
		n := b.facts.Calls(grant, len(files))
		for i := range files[:n] {
			if w := &files[i]; w.Err == nil {
				w.Facts, w.FactsErr = w.File.facts()
			}
		}
		b.facts.End(grant, n)
		files = files[n:]
	}
}
