package testkit

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

// Entry is an entry of a directory: File, Sparse, Dir, Symlink, Fifo, Socket, Device, Hardlink, or one of these With
// attributes.
type Entry interface{ entry() }

// Dir is a directory, or a whole tree: entries by name. Names are bytes, without '/'.
type Dir map[string]Entry

// File is a regular file, with the attributes that tests need most; With sets the others.
type File struct {
	Data  []byte
	Mode  uint32    // as in With
	Mtime time.Time // as in With
}

// Sparse is a regular file with holes: Size bytes long, with Data at some offsets.
type Sparse struct {
	Size int64
	Data map[int64][]byte
}

// Symlink is a symbolic link; its target is stored unchanged.
type Symlink struct{ Target string }

// Fifo is a named pipe.
type Fifo struct{}

// Socket is a socket without a listener.
type Socket struct{}

// Device is a character or block device; only root can make one.
type Device struct {
	Block        bool
	Major, Minor uint32
}

// Hardlink is one more name of another entry. To is a path from the root of the tree, with slashes.
type Hardlink struct{ To string }

// Owner is a user and a group by number.
type Owner struct{ UID, GID uint32 }

// ModeNone is the mode 0000, because a zero Mode means the default.
const ModeNone uint32 = 1 << 31

// With gives an entry attributes. Zero fields are left to the file system, except that the mode of a File, Sparse or
// Dir is then 0644 or 0755 whatever the umask.
type With struct {
	Of     Entry  // not a With
	Mode   uint32 // 12 bits, or ModeNone
	Owner  *Owner
	Mtime  time.Time
	Xattrs map[string]string
	Flags  uint32 // inode flags: FS_IOC_SETFLAGS bits on Linux, st_flags on macOS; added to those that are set
	ACL    string // one entry of an access control list: of setfacl -m on Linux, of chmod +a on macOS

	// The rest is refused on Linux.
	Birth      time.Time
	Compressed bool // by the file system: a File of a few KiB or more
}

func (Dir) entry()      {}
func (File) entry()     {}
func (Sparse) entry()   {}
func (Symlink) entry()  {}
func (Fifo) entry()     {}
func (Socket) entry()   {}
func (Device) entry()   {}
func (Hardlink) entry() {}
func (With) entry()     {}

// Write makes tree in the directory root, which is created if it is missing. Any failure fails the test. If tree has
// flags or unusual modes, root should lie in a TempDir, which can remove them.
func Write(t testing.TB, root string, tree Dir) {
	t.Helper()
	refused, err := write(root, tree)
	if err != nil {
		t.Fatalf("write tree %s: %v", root, err)
	}
	if len(refused) > 0 {
		t.Fatalf("write tree %s:\n%s", root, strings.Join(refused, "\n"))
	}
}

// attributes splits an entry into the bare entry and its attributes, defaults filled in.
func attributes(e Entry) (Entry, With) {
	w, ok := e.(With)
	if !ok {
		w.Of = e
	}
	usual := uint32(0)
	switch bare := w.Of.(type) {
	case File:
		usual = cmp.Or(bare.Mode, 0o644)
		if w.Mtime.IsZero() {
			w.Mtime = bare.Mtime
		}
	case Sparse:
		usual = 0o644
	case Dir:
		usual = 0o755
	}
	w.Mode = cmp.Or(w.Mode, usual)
	return w.Of, w
}
