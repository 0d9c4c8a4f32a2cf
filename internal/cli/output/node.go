package output

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Node is one object of a snapshot.
type Node struct {
	Path string
	Node *tree.Node
	In   *snapshot.Snapshot // knows what owners are called
	// Match is the short ID of the snapshot it was found in, when it is the result of a search.
	Match string
	Long  bool // everything in text, not only the path
	Exact bool // sizes in bytes, instead of rounded
}

// Text writes one line.
func (n *Node) Text(w *show.Page) {
	if !n.Long {
		fmt.Fprintln(w, human.Printable(n.Path))
		return
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
	line := fmt.Sprintf("%s %-8s %-8s %12s %s %s", permissions(n.Node), owner(n.In.Users, n.Node.UID),
		owner(n.In.Groups, n.Node.GID), size, stamp(n.Node.ModTime), human.Printable(n.Path))
	if n.Node.Type == tree.Symlink {
		line += " -> " + human.Printable(n.Node.Target)
	}
	if n.Node.Outcome != tree.Static {
		_, how := outcome(n.Node.Outcome)
		line += "  [" + how + "]"
	}
	fmt.Fprintln(w, line)
}

func owner(names map[uint32]string, id uint32) string {
	if name := names[id]; name != "" {
		return human.Printable(name)
	}
	return strconv.FormatUint(uint64(id), 10)
}

// outcome is how the content of a file was read: a word for scripts, and a text.
func outcome(o tree.Outcome) (key, text string) {
	words, known := map[tree.Outcome][2]string{
		tree.Retried:    {"retried", "changed at first, read again"},
		tree.Dynamic:    {"dynamic", "changed while it was read"},
		tree.Skipped:    {"skipped", "no content: changed on every attempt"},
		tree.Unreadable: {"unreadable", "no content: could not be read"},
	}[o]
	if !known {
		return "static", "read in one go"
	}
	return words[0], words[1]
}

// Events returns the node record.
func (n *Node) Events() []any {
	f := n.Node
	e := &event.Node{
		Type: "node", Snapshot: n.Match, Name: f.Name, NodeType: typeName(f.Type), Path: event.NewPath(n.Path),
		UID: f.UID, GID: f.GID, User: n.In.Users[f.UID], Group: n.In.Groups[f.GID],
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
		e.Outcome, _ = outcome(f.Outcome)
	}
	return []any{e}
}

// typeName has restic's names.
func typeName(t tree.Type) string {
	name, known := map[tree.Type]string{tree.File: "file", tree.Dir: "dir", tree.Symlink: "symlink", tree.Fifo: "fifo",
		tree.Socket: "socket", tree.CharDevice: "chardev", tree.BlockDevice: "dev"}[t]
	if !known {
		return fmt.Sprintf("type %d", t)
	}
	return name
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

func stamp(t tree.Time) string { return t.Std().Format(time.DateTime) }

// ContentVersion is one of the contents that a file had: two lines, below a heading for the first of its path. host is
// "" if all snapshots are of one machine, and repository what the command names.
func ContentVersion(v *browse.Version, host, repository string, first bool) Record {
	oldest, last := v.First, v.Last
	key, how := outcome(v.Node.Outcome)
	e := &event.ContentVersion{Path: event.NewPath(v.Path), NodeType: typeName(v.Node.Type), Host: host,
		ModTime: written(v.Node.ModTime), First: oldest.ID.String(), Saved: oldest.Snapshot.Time.Std(),
		Last: last.ID.String(), Until: last.Snapshot.Time.Std(), Snapshots: v.Count, Active: v.Active, Outcome: key}
	if v.Node.Type == tree.File {
		e.Size = &v.Node.Size
	}
	return one("version", e, func(w *show.Page) {
		if first {
			where := human.Printable(v.Path)
			if host != "" {
				where += " on " + human.Printable(host)
			}
			fmt.Fprintln(w, where)
		}
		what, in := typeName(v.Node.Type), "in snapshot "+last.ID.Short()+" of "+stamp(last.Snapshot.Time)
		switch v.Node.Type {
		case tree.File:
			what = human.Size(v.Node.Size)
		case tree.Symlink:
			what += " -> " + human.Printable(v.Node.Target)
		}
		if v.Node.Outcome == tree.Skipped || v.Node.Outcome == tree.Unreadable {
			what = how
		}
		if v.Count > 1 {
			in = fmt.Sprintf("in %d snapshots, %s to %s", v.Count, stamp(oldest.Snapshot.Time), stamp(last.Snapshot.Time))
		}
		command := "tidemark restore " + human.ShellWord(last.ID.Short()+":"+v.Path) + " --target DIR"
		if repository != "" {
			command += " --repo " + human.ShellWord(repository)
		}
		fmt.Fprintf(w, "%s\n      %s\n", w.Prose("  "+stamp(v.Node.ModTime)+"  "+what+", "+in), command)
	})
}
