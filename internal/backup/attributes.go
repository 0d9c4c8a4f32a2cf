package backup

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	attributesOp = "read extended attributes"
	flagsOp      = "read inode flags"
)

// attributes reads what lies beside an object's stat, by its name. An object of which something cannot be read is stored
// without it and counts as incomplete; whether that is a failure of its own is the caller's to say.
func (p *pipeline) attributes(x *extra, dir *localfs.Dir, name string, typ tree.Type) (xattrErr, flagErr error) {
	if dir == nil {
		return nil, nil
	}
	x.xattrs, xattrErr = dir.Xattrs(name, typ)
	if typ == tree.File || typ == tree.Dir {
		x.flags, flagErr = dir.Flags(name, typ)
	}
	if localfs.Unsupported(flagErr) {
		flagErr = nil
	}
	x.incomplete = xattrErr != nil || flagErr != nil
	if errors.Is(xattrErr, localfs.ErrVanished) {
		xattrErr = nil
	}
	if typ == tree.File || outOfReach(flagErr) {
		flagErr = nil // a file that may not be opened has been reported as such; its flags are lost with its content
	}
	if p.src.Reading.AccessTime {
		var st localfs.Stat
		if dir.Lstat(name, &st) == nil {
			x.access = &st.Atime
		}
	}
	return xattrErr, flagErr
}

// outOfReach reports whether flags could not be read for a reason that is no failure of its own: the directory is gone,
// or it may only be passed through. What of its contents is missed for that reason has been booked.
func outOfReach(err error) bool {
	return errors.Is(err, localfs.ErrVanished) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EBADF)
}

// selfAttributes reads those of a directory from inside, where nobody can swap it, and if its mode forbids that, by its
// name.
func (p *pipeline) selfAttributes(j *job) {
	var xattrErr, flagErr error
	dir := j.dir.Dir(".")
	if dir == nil && j.dir.Err == nil { // it was not opened
		if again, err := j.dir.Reopen(); err == nil {
			defer again.Release()
			dir = again
		}
	}
	if dir != nil {
		xattrErr, flagErr = p.attributes(&j.self, dir, ".", tree.Dir)
	}
	if dir == nil || errors.Is(xattrErr, fs.ErrPermission) && j.dir.Above() != nil {
		xattrErr, flagErr = p.attributes(&j.self, j.dir.Above(), j.dir.Name, tree.Dir)
	}
	p.missed(j, attributesOp, xattrErr)
	p.missed(j, flagsOp, flagErr)
}

// missed books what could not be read of the directory itself.
func (p *pipeline) missed(j *job, op string, err error) {
	switch {
	case err == nil:
	case j.failed: // booked as such
		p.Ledger.Note(j.dir.Path(), op, err)
	default:
		p.failed(j.dir.Path(), op, err)
	}
}

// beside takes over what lies beside the content of a file that was read.
func (p *pipeline) beside(r *result, all *localfs.Facts, d *scan.Directory, name string) {
	if all.XattrErr != nil {
		p.failed(d.Join(name), attributesOp, all.XattrErr)
		r.more().incomplete = true
	}
	if all.FlagErr != nil && !localfs.Unsupported(all.FlagErr) {
		p.failed(d.Join(name), flagsOp, all.FlagErr)
		r.more().incomplete = true
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

// incompleteNsec is the ctime, in nanoseconds from 1970 on, under which an object is stored whose attributes or flags
// are not all in its node, so that the next backup reads it again. The outcomes of the format speak of the content, and a
// restore and a listing would tell of content what is not so; nothing restores or relies on the ctime. No object has
// this one by itself: a file system that keeps none gives zero.
const incompleteNsec = 1

// markIncomplete makes n a node that no later backup takes over.
func markIncomplete(n *tree.Node) { n.Changed = tree.Time{Nsec: incompleteNsec} }

// incomplete reports whether n was marked so.
func incomplete(n *tree.Node) bool { return n.Changed == tree.Time{Nsec: incompleteNsec} }
