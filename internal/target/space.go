package target

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// leastSpace is what a backup needs at least to be worth beginning, in bytes: some packs, and their index.
const leastSpace = 256 << 20

// space is how much may be written.
type space struct {
	free, size      uint64 // bytes
	files, allFiles uint64 // inodes; 0 of 0 where they are not limited
	quota           *quota // of this user; nil: there is none, or it cannot be asked for
	note            string // what else is known, as a part of the sentence
}

// quota is the limit of a user.
type quota struct {
	used, limit uint64 // bytes; limit 0: none
}

// left is what the quota allows, if that is less than what is free.
func (s space) left() uint64 {
	if s.quota != nil && s.quota.limit > 0 {
		if s.quota.used >= s.quota.limit {
			return 0
		}
		return min(s.free, s.quota.limit-s.quota.used)
	}
	return s.free
}

// String is the evidence.
func (s space) String() string {
	text := fmt.Sprintf("%s of %s are free", human.Size(s.free), human.Size(s.size))
	if s.allFiles > 0 {
		text += fmt.Sprintf(", for %s more files", human.Count(s.files))
	}
	if s.quota != nil && s.quota.limit > 0 {
		text += fmt.Sprintf("; the quota of this user is %s, and %s of it are used", human.Size(s.quota.limit),
			human.Size(s.quota.used))
	}
	return text + s.note + "."
}

// spaceOf asks the file system, as one operation of the gate.
func spaceOf(door localfs.Door, path string) (s space, err error) {
	r := &room{path: path, door: door}
	err = r.do(iopolicy.Op{Kind: iopolicy.Metadata}, func() error {
		d, err := os.Open(path)
		if err != nil {
			return err
		}
		defer d.Close()
		return withDescriptor(d, func(fd int) error {
			var st unix.Statfs_t
			if err := repeat(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
				return os.NewSyscallError("fstatfs", err)
			}
			unit := uint64(st.Bsize)
			s = space{free: uint64(st.Bavail) * unit, size: uint64(st.Blocks) * unit, files: uint64(st.Ffree), allFiles: uint64(st.Files)}
			s.quota = quotaOf(fd)
			return nil
		})
	})
	return s, err
}

// withDescriptor calls act with the descriptor of f.
func withDescriptor(f *os.File, act func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = act(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// repeat makes a call again that a signal interrupted.
func repeat(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // errnos come bare
			return err
		}
	}
}
