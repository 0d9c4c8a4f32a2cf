package localfs

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Known is the file that a name stood for when it was looked at. Opening is cheaper if it still does, and comes to the
// same if not.
type Known struct {
	Dev, Ino uint64

	Times        bool // the rest is known, too
	Size         uint64
	Mtime, Ctime tree.Time
}

// stat returns what is known of the file, as far as whoever reads it needs that.
func (k *Known) stat() Stat {
	return Stat{Type: tree.File, Dev: k.Dev, Ino: k.Ino, Size: k.Size, Mtime: k.Mtime, Ctime: k.Ctime}
}

// Presumed reports whether the file was opened without a look at it, because so much was known of it. What was read of it
// counts only if Same says yes to what Facts told afterwards. If not, or if reading failed, it has changed since it was
// known, or is another object: then it is opened again as one of which nothing is known.
func (f *File) Presumed() bool { return f.presumed }

// Same reports whether st, told of the file after it was read, is what the file was when it was opened.
func (f *File) Same(st *Stat) bool {
	was := &f.opened
	return st.Type == tree.File && st.Dev == was.Dev && st.Ino == was.Ino && st.Size == was.Size && st.Mtime == was.Mtime &&
		st.Ctime == was.Ctime
}

// Confirm is the look that was not made when a presumed file was opened; of others it does nothing. ErrReplaced: it is
// another object than was known, or has changed since.
func (f *File) Confirm() error {
	if !f.presumed {
		return nil
	}
	var st Stat
	if err := f.status(&st); err != nil {
		return fmt.Errorf("look at open file: %w", err)
	}
	if !f.Same(&st) {
		return ErrReplaced
	}
	f.opened, f.presumed = st, false
	return nil
}

// Facts asks what File.Facts tells of those files that ReadWhole has read, as few operations of the gate, as long as they
// are answered from memory.
func (b *Batch) Facts(files []Whole) {
	b.facts.Most = MostLooks
	for len(files) > 0 {
		door := &files[0].File.door
		grant, err := door.begin(iopolicy.Metadata, 0)
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
