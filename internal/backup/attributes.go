package backup

import (
	"errors"
	"io/fs"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// attributes reads what lies beside an object's stat, by its name. An object of which something cannot be read is stored
// without it; whether that is a failure of its own is the caller's to say.
func (p *pipeline) attributes(x *extra, dir *localfs.Dir, name string, typ tree.Type) error {
	if dir == nil {
		return nil
	}
	xattrs, err := dir.Xattrs(name, typ)
	if errors.Is(err, localfs.ErrVanished) {
		err = nil
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
	return err
}

// selfAttributes reads those of a directory from inside, where nobody can swap it, and if its mode forbids that, by its
// name.
func (p *pipeline) selfAttributes(j *job) {
	var err error
	dir := j.dir.Dir(".")
	if dir != nil {
		err = p.attributes(&j.self, dir, ".", tree.Dir)
	}
	if dir == nil || errors.Is(err, fs.ErrPermission) && j.dir.Above() != nil {
		err = p.attributes(&j.self, j.dir.Above(), j.dir.Name, tree.Dir)
	}
	switch {
	case err == nil:
	case j.failed: // booked as such
		p.Ledger.Note(j.dir.Path(), attributesOp, err)
	default:
		p.failed(j.dir.Path(), attributesOp, err)
	}
}

const attributesOp = "read extended attributes"

// beside takes over what lies beside the content of a file that was read.
func (p *pipeline) beside(r *result, all *localfs.Facts, d *scan.Directory, name string) {
	if all.XattrErr != nil {
		p.failed(d.Join(name), attributesOp, all.XattrErr)
	}
	if all.FlagErr != nil && !localfs.Unsupported(all.FlagErr) {
		p.failed(d.Join(name), "read inode flags", all.FlagErr)
	}
	if len(all.Xattrs) > 0 || all.Flags != 0 {
		x := r.more()
		x.xattrs, x.flags = all.Xattrs, all.Flags
	}
	if p.src.Reading.AccessTime {
		access := all.Atime
		r.more().access = &access
	}
}
