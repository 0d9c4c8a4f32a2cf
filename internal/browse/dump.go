package browse

import (
	"context"
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Packing is the form in which a directory is written to a stream.
type Packing uint8

// The forms.
const (
	// PAX: keeps everything except sockets, birth times and inode flags; ACLs as text, holes as in GNU tar
	Tar Packing = iota
	Zip         // for other systems: names, modes, times in seconds, files, directories and symbolic links
)

// Archive is the form in which a directory is written.
type Archive struct {
	Packing       Packing
	Users, Groups map[uint32]string // names of owners in the snapshot; may be nil
	// Left receives each object or attribute that is left out, with the reason: ErrNoContent, ErrPartial,
	// ErrNotRepresentable. May be nil.
	Left func(path string, err error)
}

// DumpAs writes the file sub of the tree to w unchanged, holes as zeros. A directory is written as an archive of its
// subtree, with paths from the root without the leading '/'. Any other type is an error that wraps ErrNotRepresentable.
//
// For hard links the path of the first is kept in memory until the last was written, if all of them are beneath sub.
func DumpAs(ctx context.Context, load tree.Load, root format.ID, sub string, a Archive, w io.Writer) error {
	n, err := Resolve(ctx, load, root, sub)
	if err != nil {
		return err
	}
	at := clean(sub)
	switch n.Type {
	case tree.File:
		if err := WriteContent(ctx, load, n, w); err != nil {
			return fmt.Errorf("write %s: %w", at, err)
		}
		return nil
	case tree.Dir:
	default:
		return fmt.Errorf("write %s: it has no content: %w", at, ErrNotRepresentable)
	}
	if a.Left == nil {
		a.Left = func(string, error) {}
	}
	d := dumper{load: load, Archive: a}
	if a.Packing == Zip {
		return d.zip(ctx, n, at, w)
	}
	return d.tar(ctx, n, at, w)
}

// dumper writes one archive.
type dumper struct {
	load tree.Load
	Archive
}

// everything visits sub, unless it is the nameless root, and its subtree.
func (d *dumper) everything(ctx context.Context, sub *tree.Node, at string, visit Visit) error {
	each := func(at string, n *tree.Node) error {
		if n.Type == tree.Dir && n.Outcome == tree.Unreadable {
			d.Left(at, ErrPartial)
		}
		return visit(at, n)
	}
	if sub.Name != "" {
		if err := each(at, sub); err != nil {
			return err
		}
	}
	return walk(ctx, d.load, sub.Subtree, at, true, each)
}
