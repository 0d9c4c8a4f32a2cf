package target

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	// prefix begins the names of the folders of probes and checks.
	prefix = local.TempPrefix + "probe-"
	// staleAfter is far beyond the time a probe takes.
	staleAfter = 24 * time.Hour
)

// Options says how a folder is probed.
type Options struct {
	Pass *iopolicy.Pass // the way to the device; nil: everything is admitted at once
	Now  func() time.Time
}

// Run probes the existing folder path. That it cannot be written to, or is full, is in the report and no error; an error
// means that it could not be looked at (ErrNotFolder: it is none), or that ctx ended, whose cause is then wrapped.
func Run(ctx context.Context, path string, opt Options) (*Report, error) {
	report, err := run(ctx, path, opt)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", path, err)
	}
	return report, nil
}

func run(ctx context.Context, path string, opt Options) (*Report, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	door := localfs.Door{Ctx: ctx, Pass: opt.Pass}
	parent, err := openFolder(door, path)
	if err != nil {
		return nil, err
	}
	defer parent.Release()
	report := &Report{Path: path}
	if report.Device, err = device.At(parent); err != nil {
		return nil, err
	}
	if report.Identity, err = IdentityOf(parent, report.Device); err != nil {
		return nil, err
	}
	info, err := parent.FS()
	if err != nil {
		return nil, err
	}
	p := &prober{ctx: ctx, report: report, now: opt.Now, device: report.Device, stable: info.StableInodes}
	p.fileSystem(info)
	if report.Verdict() == IsUnfit {
		return report, nil
	}
	free, err := spaceOf(door, path)
	if err != nil {
		return nil, err
	}
	p.space(free)
	if report.Verdict() == IsUnfit {
		return report, nil
	}
	err = inside(door, parent, path, func(r *room) error {
		p.folder, p.lock = r, r.lock
		return p.all()
	})
	if stop := context.Cause(ctx); stop != nil {
		return nil, errors.Join(stop, err)
	}
	var refused *refusal
	if errors.As(err, &refused) {
		p.refused(refused.err)
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return report, nil
}

func openFolder(door localfs.Door, path string) (*localfs.Dir, error) {
	dir, err := door.OpenDir(path)
	switch {
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, localfs.ErrNotDir):
		return nil, fmt.Errorf("%w: name the folder that holds the repository, or is to hold it (%w)", ErrNotFolder, err)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is nothing of that name; is the disk or share mounted? (%w)", ErrNotFolder, err)
	}
	return dir, err
}

// refusal is an error that says something about the target and ends the probes.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// inside makes a temporary folder in parent, and takes it away again whatever happens.
func inside(door localfs.Door, parent *localfs.Dir, path string, use func(*room) error) (err error) {
	tidy, err := parent.Tidy()
	if err != nil {
		return err
	}
	defer tidy.Release()
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
	name := prefix + hex.EncodeToString(random[:])
	if err := parent.Mkdir(name, 0o700); err != nil {
		return &refusal{err}
	}
	defer func() { err = errors.Join(err, removeAll(tidy, name)) }()
	dir, err := parent.Open(name)
	if err != nil {
		return &refusal{err}
	}
	defer dir.Release()
	if fresh, err := dir.Fstat(); err == nil {
		removeStale(tidy, fresh.Mtime.Sec)
	}
	return use(&room{dir: dir, path: filepath.Join(path, name), door: door})
}

// removeStale removes what killed programs have left. now is the target's clock, in seconds. What cannot be removed does
// no harm.
func removeStale(parent *localfs.Dir, now int64) {
	names, err := namesOf(parent)
	if err != nil {
		return
	}
	for _, name := range names {
		var st localfs.Stat
		if strings.HasPrefix(name, prefix) && parent.Lstat(name, &st) == nil &&
			st.Mtime.Sec < now-int64(staleAfter/time.Second) {
			_ = removeAll(parent, name)
		}
	}
}
