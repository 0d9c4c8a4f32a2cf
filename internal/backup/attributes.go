package backup

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// attributes reads what lies beside an object's stat, by its name. What cannot be read is a failure of that object,
// which is stored without it.
func (p *pipeline) attributes(x *extra, dir *localfs.Dir, name string, typ tree.Type, path string) {
	if dir == nil {
		return
	}
	xattrs, err := dir.Xattrs(name, typ)
	if err != nil && !errors.Is(err, localfs.ErrVanished) {
		p.Ledger.Fail(path, "read extended attributes", err)
	}
	x.xattrs = xattrs
	if typ == tree.File || typ == tree.Dir {
		// A file that may not be opened has been reported as such; its flags are lost with its content.
		x.flags, _ = dir.Flags(name, typ)
	}
	if p.src.Reading.AccessTime {
		var st localfs.Stat
		if dir.Lstat(name, &st) == nil {
			x.access = &st.Atime
		}
	}
}

// openAttributes reads what lies beside the content of an open file.
func (p *pipeline) openAttributes(r *result, f *localfs.File, st *localfs.Stat, d *scan.Directory, name string) {
	xattrs, err := f.Xattrs()
	if err != nil {
		p.Ledger.Fail(d.Join(name), "read extended attributes", err)
	}
	flags, err := f.Flags()
	if err != nil && !localfs.Unsupported(err) {
		p.Ledger.Fail(d.Join(name), "read inode flags", err)
	}
	if len(xattrs) > 0 || flags != 0 {
		x := r.more()
		x.xattrs, x.flags = xattrs, flags
	}
	if p.src.Reading.AccessTime {
		r.more().access = &st.Atime
	}
}
