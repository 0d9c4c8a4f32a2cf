package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/mount"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// identity identifies a directory under any name.
type identity struct{ dev, ino uint64 }

// protect excludes the repository and the cache from the backup: by path, and by device and inode, so that neither
// another name nor a bind mount includes them. It also compiles the rules of spec.
func (a *app) protect(ctx context.Context, spec *options.Spec, sources []string, src *backup.Source) error {
	at, err := a.place.Location()
	if err != nil {
		return err
	}
	known := map[identity]bool{}
	var protected []options.Protected
	var copies location.Location
	if to := spec.Job().CopyTo; to != "" {
		if copies, err = place.Parse(to); err != nil { // its disk is not connected
			copies = location.Location{}
		}
	}
	for _, own := range []options.Protected{{Path: at.Folder, Why: "the repository"},
		{Path: copies.Folder, Why: "the repository of COPYTO"}, {Path: spec.Cache().Dir, Why: "the cache"}} {
		if own.Path == "" {
			continue
		}
		own.Path = resolve(own.Path)
		protected = append(protected, own)
		dir, err := localfs.OpenDir(own.Path)
		if err != nil {
			continue // does not exist yet: its path protects it
		}
		if st, err := dir.Fstat(); err == nil {
			known[identity{st.Dev, st.Ino}] = true
		}
		dir.Release()
	}
	mounts, err := localfs.Mounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.Type != mount.Type {
			continue
		}
		protected = append(protected, options.Protected{Path: m.Path, Why: "a mount of snapshots"})
		if slices.ContainsFunc(sources, func(source string) bool { return within(m.Path, source) }) {
			a.print.Note(human.Printable(m.Path) + " is left out: snapshots are mounted there")
		}
	}
	if runtime.GOOS == "darwin" {
		protected = append(protected, options.Protected{Path: localfs.SystemVolumes, Hollow: true, Sources: sources,
			Why: "a volume of the system, whose files appear at the root"})
		if spec.ExcludesTimeMachine() {
			protected = append(append(protected, a.leftOutByTimeMachine(ctx, mounts, sources)...),
				options.Protected{Sources: sources})
		}
	}
	src.Skip = func(dev, ino uint64) bool { return known[identity{dev, ino}] }
	set, warnings, err := spec.Rules(os.ReadFile, a.Env, protected...)
	a.warn(warnings)
	if err != nil {
		return &usageError{err}
	}
	src.Rules = set
	return nil
}

// leftOutByTimeMachine returns what Time Machine excludes on this Mac now, but for what is a source of this backup.
func (a *app) leftOutByTimeMachine(ctx context.Context, mounts []localfs.Mount, sources []string) (
	all []options.Protected) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m := &job.Mac{Run: func(program string, args ...string) ([]byte, error) { return outputOf(ctx, program, args...) }}
	homes, err := os.ReadDir("/Users")
	if err != nil {
		a.print.Note(err.Error())
	}
	for _, home := range homes {
		m.Homes = append(m.Homes, filepath.Join("/Users", home.Name()))
	}
	for i := range mounts {
		m.Mounts = append(m.Mounts, mounts[i].Path)
	}
	all, err = leftOut(m, sources)
	if err != nil {
		a.print.Note(err.Error())
	}
	return all
}

// leftOut returns what Time Machine excludes, but for what is one of sources or contains one. With an error, which says
// what is not known, the rest is returned.
func leftOut(m *job.Mac, sources []string) (all []options.Protected, err error) {
	paths, err := m.TimeMachineExclusions()
	for _, path := range paths {
		folder := strings.TrimSuffix(path, "/*")
		if !slices.ContainsFunc(sources, func(source string) bool { return within(source, folder) }) {
			all = append(all, options.Protected{Path: path, Why: "excluded from Time Machine"})
		}
	}
	return all, err
}

// resolve follows the links of a path as far as it exists, and returns an absolute path.
func resolve(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest)
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return path
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
