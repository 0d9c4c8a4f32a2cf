package output

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Names are what the owners are called, as a snapshot keeps them.
type Names struct{ Users, Groups map[uint32]string }

// Node is one object of a snapshot.
type Node struct {
	Path  string
	Node  *tree.Node
	Names Names
	// Match is the short ID of the snapshot it was found in, when it is the result of a search.
	Match string
	Long  bool // everything in text, not only the path
	Exact bool // sizes in bytes, instead of rounded
}

// Text writes one line.
func (n *Node) Text(w io.Writer) error {
	if !n.Long {
		_, err := fmt.Fprintln(w, human.Printable(n.Path))
		return err
	}
	size := ""
	switch n.Node.Type {
	case tree.File:
		if size = human.Size(n.Node.Size); n.Exact {
			size = strconv.FormatUint(n.Node.Size, 10)
		}
	case tree.CharDevice, tree.BlockDevice:
		size = fmt.Sprintf("%d, %d", n.Node.Device>>32, n.Node.Device&(1<<32-1))
	}
	line := fmt.Sprintf("%s %-8s %-8s %12s %s %s", permissions(n.Node), owner(n.Names.Users, n.Node.UID),
		owner(n.Names.Groups, n.Node.GID), size, stamp(n.Node.ModTime), human.Printable(n.Path))
	if n.Node.Type == tree.Symlink {
		line += " -> " + human.Printable(n.Node.Target)
	}
	if n.Node.Outcome != tree.Static {
		line += "  [" + outcome(n.Node.Outcome) + "]"
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func owner(names map[uint32]string, id uint32) string {
	if name := names[id]; name != "" {
		return human.Printable(name)
	}
	return strconv.FormatUint(uint64(id), 10)
}

// outcome describes how the content of a file was read.
func outcome(o tree.Outcome) string {
	switch o {
	case tree.Retried:
		return "changed at first, read again"
	case tree.Dynamic:
		return "changed while it was read"
	case tree.Skipped:
		return "no content: changed on every attempt"
	case tree.Unreadable:
		return "no content: could not be read"
	}
	return "read in one go"
}

// Events returns the node record.
func (n *Node) Events() []any {
	f := n.Node
	e := &event.Node{
		Type: "node", Snapshot: n.Match, Name: f.Name, NodeType: typeName(f.Type), Path: event.NewPath(n.Path),
		UID: f.UID, GID: f.GID, User: n.Names.Users[f.UID], Group: n.Names.Groups[f.GID],
		Mode: f.Mode, Permissions: permissions(f), ModTime: written(f.ModTime), ChangeTime: written(f.Changed),
		Inode: f.Inode, Links: f.Links,
	}
	if n.Match != "" {
		e.Type = "match"
	}
	e.Name, _ = event.Escape(f.Name)
	if f.Type == tree.File {
		e.Size = &f.Size
	}
	if f.Type == tree.CharDevice || f.Type == tree.BlockDevice {
		e.Device = &f.Device
	}
	if f.Type == tree.Symlink {
		e.Target, e.TargetRaw = event.Escape(f.Target)
	}
	e.AccessTime, e.BirthTime = optional(f.Access), optional(f.Born)
	if f.Outcome != tree.Static {
		e.Outcome = outcomeKey(f.Outcome)
	}
	return []any{e}
}

func outcomeKey(o tree.Outcome) string {
	switch o {
	case tree.Retried:
		return "retried"
	case tree.Dynamic:
		return "dynamic"
	case tree.Skipped:
		return "skipped"
	case tree.Unreadable:
		return "unreadable"
	}
	return "static"
}

// typeName has restic's names.
func typeName(t tree.Type) string {
	switch t {
	case tree.File:
		return "file"
	case tree.Dir:
		return "dir"
	case tree.Symlink:
		return "symlink"
	case tree.Fifo:
		return "fifo"
	case tree.Socket:
		return "socket"
	case tree.CharDevice:
		return "chardev"
	case tree.BlockDevice:
		return "dev"
	}
	return fmt.Sprintf("type %d", t)
}

// permissions are those of ls -l, which people read faster than Go's.
func permissions(n *tree.Node) string {
	letters := map[tree.Type]byte{tree.File: '-', tree.Dir: 'd', tree.Symlink: 'l', tree.Fifo: 'p', tree.Socket: 's',
		tree.CharDevice: 'c', tree.BlockDevice: 'b'}
	b := []byte("?rwxrwxrwx")
	b[0] = letters[n.Type]
	for i := range 9 {
		if n.Mode&(0o400>>i) == 0 {
			b[1+i] = '-'
		}
	}
	for _, special := range []struct {
		bit  uint32
		at   int
		char byte
	}{{0o4000, 3, 's'}, {0o2000, 6, 's'}, {0o1000, 9, 't'}} {
		if n.Mode&special.bit == 0 {
			continue
		}
		if b[special.at] == '-' {
			b[special.at] = special.char - 'a' + 'A'
		} else {
			b[special.at] = special.char
		}
	}
	return string(b)
}

func optional(t *tree.Time) *time.Time {
	if t == nil {
		return nil
	}
	at := written(*t)
	return &at
}

func written(t tree.Time) time.Time { return event.Moment(t.Sec, t.Nsec) }

func stamp(t tree.Time) string { return t.Std().Format("2006-01-02 15:04:05") }
