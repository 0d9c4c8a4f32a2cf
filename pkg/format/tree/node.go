// Package tree is the codec of trees: one directory of nodes, as bytes. A small directory is one blob (a leaf page). A
// directory with very many entries is split at entries chosen by their content into several leaf pages beneath branch
// pages, so that one changed entry rewrites one page. The list of chunks of a large file is kept the same way.
//
// The package does no I/O: callbacks store and load blobs.
package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Type is the type of a file-system object. The values are stored and never change their meaning.
type Type uint8

// The types of a node.
const (
	File        Type = 1
	Dir         Type = 2
	Symlink     Type = 3
	Fifo        Type = 4
	Socket      Type = 5
	CharDevice  Type = 6
	BlockDevice Type = 7
)

// Outcome is how the content of a file was obtained. The values are stored.
type Outcome uint8

// The outcomes of reading a file, in the words of copy serialization.
const (
	Static     Outcome = 0 // did not change while it was read
	Retried    Outcome = 1 // changed at first, a retry was consistent
	Dynamic    Outcome = 2 // stored although it changed while it was read: the content may mix two states
	Skipped    Outcome = 3 // changed on every attempt: metadata only, no content stored
	Unreadable Outcome = 4 // could not be opened or read: metadata only, no content stored
)

// Time is a moment in nanoseconds, over the whole range a file system can hold.
type Time struct {
	Sec  int64  // seconds since 1970-01-01T00:00:00Z
	Nsec uint32 // 0 to 999 999 999
}

// Node is one file-system object. Byte strings are kept as they were found: they need not be UTF-8.
type Node struct {
	Name    string // the entry's name inside its directory: never empty, ".", ".." and without '/' and NUL
	Type    Type
	Mode    uint32 // permission bits with setuid, setgid and sticky: 12 bits
	UID     uint32
	GID     uint32
	Inode   uint64 // 0 where inode numbers are unreliable and the object has one name
	Links   uint64 // number of names; above 1 a restore links nodes of one mount scope that are one Object
	FS      uint64 // with several names: its file system in the mount scope; 0: that of its directory
	Size    uint64 // bytes, of a File
	ModTime Time
	Changed Time  // ctime
	Born    *Time // birth time, where the platform has it
	Access  *Time // only when access times are kept
	Outcome Outcome
	Recheck bool   // the next backup must read it again, even if none of its times has changed
	Mount   bool   // Dir: another file system is mounted here; starts a new scope of inode numbers
	Device  uint64 // CharDevice, BlockDevice: major << 32 | minor
	Target  string // Symlink
	Flags   uint64 // inode flags: FS_IOC_GETFLAGS bits on Linux, st_flags on macOS; the snapshot names the platform
	Xattrs  []Xattr
	Subtree format.ID // Dir: root page of its tree
	Content Content   // File
}

// Object identifies the object behind several names, for nodes of one mount scope. File system and inode number are not
// enough: during a backup, the number may be reused after a removal.
type Object struct {
	fs, inode, size, device uint64
	typ                     Type
	modified, changed       Time
	content                 [sha256.Size]byte
}

// Object returns the object that n names.
func (n *Node) Object() Object {
	c := &n.Content
	p := slices.Concat([]byte(n.Target), c.List[:], c.Inline)
	for i := range c.Chunks {
		p = binary.LittleEndian.AppendUint64(append(p, c.Chunks[i].ID[:]...), c.Chunks[i].Len)
	}
	return Object{
		fs: n.FS, inode: n.Inode, size: n.Size, device: n.Device, typ: n.Type, modified: n.ModTime.normal(),
		changed: n.Changed.normal(), content: sha256.Sum256(p),
	}
}

// Same reports whether o and other are one object. They may have been read at different moments, and one content can be
// stored in several ways, so either the content or the change time must be equal. A change time of whole seconds does
// not count.
func (o *Object) Same(other *Object) bool {
	return o.fs == other.fs && o.inode == other.inode && o.size == other.size && o.device == other.device &&
		o.typ == other.typ && o.modified == other.modified &&
		(o.content == other.content || o.changed == other.changed && o.changed.Nsec != 0)
}

// Xattr is one extended attribute. On Linux they include ACLs, security labels and capabilities, on macOS resource
// forks and Finder information. A macOS ACL is kept under a name of tidemark's own: see docs/metadata.md.
type Xattr struct {
	Name  string
	Value []byte
}

// Content is a file's data: at most one of Inline, Chunks and List is set. All empty: a file without data, or with one
// hole of Size bytes.
type Content struct {
	Inline []byte    // the whole content of a tiny file, at most MaxInline bytes
	Chunks []Chunk   // in the order of the file
	List   format.ID // root page of the list of chunks, when there are more than MaxChunks
}

// Equal reports whether c and other have the same bytes in the same chunks.
func (c *Content) Equal(other *Content) bool {
	return c.List == other.List && bytes.Equal(c.Inline, other.Inline) && slices.Equal(c.Chunks, other.Chunks)
}

// Chunk is a part of a file: bytes that are a blob, or a hole.
type Chunk struct {
	ID  format.ID // zero: a hole
	Len uint64    // bytes; of a blob below 2^32
}

// IsHole reports whether c is a hole of the file.
func (c Chunk) IsHole() bool { return c.ID.IsZero() }

const (
	// MaxInline is the largest file whose content is kept inside its node: below this, an ID in the tree, in the pack
	// and in the index (3 x 32 bytes) would be larger than the data.
	MaxInline = 96
	// MaxChunks is the longest list of chunks kept inside a node; a longer one moves to pages of its own, so that a
	// large file does not bloat its directory.
	MaxChunks = 32
)
