package browse

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// xattrRecord is the prefix under which star, GNU tar and libarchive keep extended attributes.
const xattrRecord = "SCHILY.xattr."

const (
	mostDevice = 1<<21 - 1 // seven octal digits
	// mostRecords is how many bytes of extended attributes a header gets: the limit of archive/tar, 1 MiB, less space
	// for names and times.
	mostRecords = 1<<20 - 64<<10
	// recordFrame is the maximum overhead of a record beside its name and value.
	recordFrame = 32
)

func (d *dumper) tar(ctx context.Context, sub *tree.Node, at string, w io.Writer) error {
	t := tarWriter{dumper: d, out: w, tw: tar.NewWriter(w), links: links{scopes: []scope{{at: "/"}}}}
	err := d.everything(ctx, sub, at, func(at string, n *tree.Node) error { return t.add(ctx, at, n) })
	if err == nil {
		err = t.tw.Close()
	}
	if err != nil {
		return fmt.Errorf("write tar: %w", err)
	}
	return nil
}

type tarWriter struct {
	*dumper
	tw    *tar.Writer
	out   io.Writer // of tw; output that tw cannot write is written to it directly, between two objects
	links links
}

func (t *tarWriter) add(ctx context.Context, at string, n *tree.Node) error {
	h := &tar.Header{
		Format: tar.FormatPAX, Name: strings.TrimPrefix(at, "/"), Mode: int64(n.Mode),
		Uid: int(n.UID), Gid: int(n.GID), Uname: t.Users[n.UID], Gname: t.Groups[n.GID], ModTime: n.ModTime.Std(),
	}
	if n.Access != nil {
		h.AccessTime = n.Access.Std()
	}
	switch n.Type {
	case tree.File:
		if !hasContent(n) {
			t.Left(at, ErrNoContent)
			return nil
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(n.Size)
	case tree.Dir:
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case tree.Symlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.Target
	case tree.Fifo:
		h.Typeflag = tar.TypeFifo
	case tree.CharDevice, tree.BlockDevice:
		h.Typeflag = tar.TypeChar
		if n.Type == tree.BlockDevice {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(n.Device>>32), int64(n.Device&(1<<32-1))
		if max(h.Devmajor, h.Devminor) > mostDevice {
			t.Left(at, fmt.Errorf("device %d:%d: %w", h.Devmajor, h.Devminor, ErrNotRepresentable))
			return nil
		}
	default:
		t.Left(at, fmt.Errorf("a socket: %w", ErrNotRepresentable))
		return nil
	}
	if first := t.links.first(at, n); first != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeLink, strings.TrimPrefix(first, "/"), 0
	}
	t.xattrs(at, h, n)
	if h.Typeflag == tar.TypeReg {
		m, err := t.sparseMap(ctx, n)
		if err == nil && m.data < n.Size {
			if err = t.sparse(ctx, h, n, m); err == nil {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	if err := t.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if h.Typeflag != tar.TypeReg || h.Size == 0 {
		return nil
	}
	if err := WriteContent(ctx, t.load, n, t.tw); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

func (t *tarWriter) xattrs(at string, h *tar.Header, n *tree.Node) {
	size := len(h.Name) + len(h.Linkname)
	for _, x := range n.Xattrs {
		key, value := record(x.Name, x.Value)
		length := len(key) + len(value) + recordFrame
		if strings.ContainsAny(x.Name, "=\x00") || size+length > mostRecords {
			t.Left(at, fmt.Errorf("extended attribute %q: %w", x.Name, ErrNotRepresentable))
			continue
		}
		if h.PAXRecords == nil {
			h.PAXRecords = make(map[string]string, len(n.Xattrs))
		}
		h.PAXRecords[key] = value
		size += length
	}
}

// links finds names of the same object. Inode numbers are unique only within one mounted file system; the scopes are
// those from the root to the current position of the walk.
type links struct{ scopes []scope }

type scope struct {
	at   string
	seen map[uint64][]linked
}

type linked struct {
	of   tree.Object
	path string
	left uint64 // names that follow
}

// first returns the path under which the object was visited before, or "".
func (l *links) first(at string, n *tree.Node) string {
	for len(l.scopes) > 1 && !strings.HasPrefix(at, l.scopes[len(l.scopes)-1].at+"/") {
		l.scopes = l.scopes[:len(l.scopes)-1]
	}
	if n.Type == tree.Dir {
		if n.Mount {
			l.scopes = append(l.scopes, scope{at: at})
		}
		return ""
	}
	if n.Links < 2 || n.Inode == 0 {
		return ""
	}
	s := &l.scopes[len(l.scopes)-1]
	if s.seen == nil {
		s.seen = make(map[uint64][]linked)
	}
	of, all := n.Object(), s.seen[n.Inode]
	i := slices.IndexFunc(all, func(known linked) bool { return known.of.Same(&of) })
	if i < 0 {
		s.seen[n.Inode] = append(all, linked{of: of, path: at, left: n.Links - 1})
		return ""
	}
	path := all[i].path
	if all[i].left--; all[i].left == 0 {
		all = slices.Delete(all, i, i+1)
		s.seen[n.Inode] = all
	}
	if len(all) == 0 {
		delete(s.seen, n.Inode)
	}
	return path
}
