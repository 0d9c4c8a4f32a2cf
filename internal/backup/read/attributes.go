package read

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// The operations named in reports.
const (
	xattrOp  = "read extended attributes"
	flagsOp  = "read inode flags"
	statusOp = "look at"
)

// attributes reads what an object has beside its status, by its name. An object with attributes that cannot be read is
// stored without them and is read again by the next backup; the caller decides whether that is a failure.
func (s *Stage) attributes(x *Extra, dir *localfs.Dir, name string, typ tree.Type) (xattrErr, flagErr error) {
	if dir == nil {
		return nil, nil
	}
	x.Xattrs, xattrErr = dir.Xattrs(name, typ)
	if typ == tree.File || typ == tree.Dir {
		x.Flags, flagErr = dir.Flags(name, typ)
	}
	if localfs.Unsupported(flagErr) {
		flagErr = nil
	}
	x.Recheck = xattrErr != nil || flagErr != nil
	if errors.Is(xattrErr, localfs.ErrVanished) {
		xattrErr = nil
	}
	if typ == tree.File || outOfReach(flagErr) {
		flagErr = nil // the file itself was recorded as unreadable; its flags are lost with its content
	}
	if s.Options.AccessTime {
		var st localfs.Stat
		if dir.Lstat(name, &st) == nil {
			x.Access = &st.Atime
		}
	}
	return xattrErr, flagErr
}

// outOfReach reports whether flags could not be read for a reason that is no failure of its own: the directory is gone,
// or may only be passed through. Contents missed for that reason have been recorded.
func outOfReach(err error) bool {
	return errors.Is(err, localfs.ErrVanished) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EBADF)
}

// takeMetadata takes the attributes of f, whose content was read.
func (s *Stage) takeMetadata(d *Dir, i uint32, f *localfs.File, all *localfs.Facts) {
	r := &d.Results[i]
	if f.Dirty() {
		r.extra().Recheck = true
	}
	if all.XattrErr != nil {
		s.fail(d.path(i), xattrOp, all.XattrErr)
		r.extra().Recheck = true
	}
	if all.FlagErr != nil && !localfs.Unsupported(all.FlagErr) {
		s.fail(d.path(i), flagsOp, all.FlagErr)
		r.extra().Recheck = true
	}
	if len(all.Xattrs) > 0 || all.Flags != 0 {
		x := r.extra()
		x.Xattrs, x.Flags = all.Xattrs, all.Flags
	}
	if s.Options.AccessTime {
		access := all.Atime
		r.extra().Access = &access
	}
}

// Self reads the attributes of a directory from inside, where no other directory can take its place, and if its mode
// forbids that, by its name. incomplete: that the directory could not be listed is recorded already.
func (s *Stage) Self(x *Extra, d *scan.Directory, incomplete bool) {
	var xattrErr, flagErr error
	dir := d.Dir(".")
	if dir == nil && d.Err == nil { // it was listed without opening it
		if again, err := d.Reopen(); err == nil {
			defer again.Release()
			dir = again
		}
	}
	if dir != nil {
		xattrErr, flagErr = s.attributes(x, dir, ".", tree.Dir)
	}
	if dir == nil || errors.Is(xattrErr, fs.ErrPermission) && d.Above() != nil {
		xattrErr, flagErr = s.attributes(x, d.Above(), d.Name, tree.Dir)
	}
	s.missing(d, incomplete, xattrOp, xattrErr)
	s.missing(d, incomplete, flagsOp, flagErr)
}

// missing records an attribute of a directory that could not be read.
func (s *Stage) missing(d *scan.Directory, incomplete bool, op string, err error) {
	switch {
	case err == nil:
	case incomplete:
		s.Ledger.Note(d.Path(), op, err)
	default:
		s.fail(d.Path(), op, err)
	}
}
