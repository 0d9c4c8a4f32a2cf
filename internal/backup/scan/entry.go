package scan

import (
	"math"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Entry is one object of a directory, packed: a directory of a million entries is in memory while it is worked on. What
// only a changed object needs (access time, device number, attributes) is read later.
type Entry struct {
	Name   string
	Ino    uint64
	Size   uint64
	secs   [3]int64
	nsecs  [3]uint32
	Links  uint32
	UID    uint32
	GID    uint32
	Mode   uint16
	Type   tree.Type
	byName rules.Verdict // NotEntered: the contents of a directory are excluded; NeedType: the rules need its type
	FS     uint32        // its file system, if that is not its directory's: see on; 0: it is
	sparse bool
	// Dataless: its content is not on this machine, but with a cloud provider. It is neither opened nor entered, since
	// that would fetch the content.
	Dataless bool
}

const (
	mtime = iota
	ctime
	birth
)

// ModTime returns the time of the last modification of the content.
func (e *Entry) ModTime() tree.Time { return e.time(mtime) }

// Changed returns the time of the last change of content or metadata (ctime).
func (e *Entry) Changed() tree.Time { return e.time(ctime) }

// Born returns the birth time, and whether it is known.
func (e *Entry) Born() (tree.Time, bool) { return e.time(birth), e.secs[birth] != math.MinInt64 }

func (e *Entry) time(i int) tree.Time { return tree.Time{Sec: e.secs[i], Nsec: e.nsecs[i]} }

// Set copies st, and keeps the name.
func (e *Entry) Set(st *localfs.Stat) {
	e.Ino, e.Size = st.Ino, st.Size
	e.sparse = st.Blocks512*512 < st.Size
	e.secs = [3]int64{st.Mtime.Sec, st.Ctime.Sec, st.Birth.Sec}
	e.nsecs = [3]uint32{st.Mtime.Nsec, st.Ctime.Nsec, st.Birth.Nsec}
	e.Links = uint32(min(st.Links, math.MaxUint32))
	e.UID, e.GID, e.Mode, e.Type = st.UID, st.GID, uint16(st.Mode&0o7777), st.Type
	e.Dataless = st.Attr&localfs.AttrDataless != 0 && (st.Type == tree.File || st.Type == tree.Dir)
}

// Mount reports whether e lies on another file system than its directory.
func (e *Entry) Mount() bool { return e.FS != 0 }

// on sets the file system of e, from the device numbers of e and of its directory. Linux has majors of 12 bits and
// minors of 20, so that each file system in a mount scope has a number of its own. A boot changes their difference less
// than it changes them.
func (e *Entry) on(dev, dir uint64) {
	of := func(dev uint64) uint32 { return uint32(dev>>32)<<20 + uint32(dev) }
	if e.FS = 0; dev != dir {
		e.FS = max(1, of(dev)-of(dir))
	}
}

// Sparse reports whether a file has fewer blocks than its size needs: it has holes, or the file system compresses it or
// stores it in the inode.
func (e *Entry) Sparse() bool { return e.Type == tree.File && e.sparse }

// Entered reports whether e is a directory that the walk enters.
func (e *Entry) Entered() bool { return e.Type == tree.Dir && !e.Dataless }
