// Package scope decides what a backup takes of its sources. It compiles the rules of the options, and leaves out what
// must never be part of a backup: its own repository, the copies of it, the caches, mounted snapshots, and on macOS the
// volumes of the system and what Time Machine leaves out.
package scope

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/mount"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/rules"
)

// Config is what a Scope depends on.
type Config struct {
	Spec    *options.Spec
	Env     options.Env
	Own     []options.Protected // folders of the backup itself; those without a path do not count
	Sources []string            // what is named is taken even if Time Machine leaves it out
	Note    func(text string)
}

// Scope is what a backup takes.
type Scope struct {
	Rules    *rules.Set
	Skip     func(dev, ino uint64) bool // directories that are left out under any name
	Warnings []options.Warning          // of the rules; also with an error
}

// identity identifies a directory under any name.
type identity struct{ dev, ino uint64 }

// New decides the scope. The folders of the backup itself are left out by path, and by device and inode, so that
// neither another name nor a bind mount includes them.
func New(ctx context.Context, cfg Config) (*Scope, error) {
	known := map[identity]bool{}
	var protected []options.Protected
	for _, own := range cfg.Own {
		if own.Path == "" {
			continue
		}
		own.Path = Resolve(own.Path)
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
		return nil, err
	}
	for _, m := range mounts {
		if m.Type != mount.Type {
			continue
		}
		protected = append(protected, options.Protected{Path: m.Path, Why: "a mount of snapshots"})
		if slices.ContainsFunc(cfg.Sources, func(source string) bool { return Within(m.Path, source) }) {
			cfg.Note(human.Printable(m.Path) + " is left out: snapshots are mounted there")
		}
	}
	if runtime.GOOS == "darwin" {
		protected = append(protected, options.Protected{Path: localfs.SystemVolumes, Hollow: true, Sources: cfg.Sources,
			Why: "a volume of the system, whose files appear at the root"})
		if cfg.Spec.ExcludesTimeMachine() {
			protected = append(append(protected, leftOutByTimeMachine(ctx, cfg, mounts)...),
				options.Protected{Sources: cfg.Sources})
		}
	}
	s := &Scope{Skip: func(dev, ino uint64) bool { return known[identity{dev, ino}] }}
	s.Rules, s.Warnings, err = cfg.Spec.Rules(os.ReadFile, cfg.Env, protected...)
	return s, err
}

// leftOutByTimeMachine returns what Time Machine excludes on this Mac now, but for what is a source of this backup.
func leftOutByTimeMachine(ctx context.Context, cfg Config, mounts []localfs.Mount) (all []options.Protected) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	m := &job.Mac{Run: func(program string, args ...string) ([]byte, error) { return OutputOf(ctx, program, args...) }}
	homes, err := os.ReadDir("/Users")
	if err != nil {
		cfg.Note(err.Error())
	}
	for _, home := range homes {
		m.Homes = append(m.Homes, filepath.Join("/Users", home.Name()))
	}
	for i := range mounts {
		m.Mounts = append(m.Mounts, mounts[i].Path)
	}
	all, err = leftOut(m, cfg.Sources)
	if err != nil {
		cfg.Note(err.Error())
	}
	return all
}

// leftOut returns what Time Machine excludes, but for what is one of sources or contains one. With an error, which says
// what is not known, the rest is returned.
func leftOut(m *job.Mac, sources []string) (all []options.Protected, err error) {
	paths, err := m.TimeMachineExclusions()
	for _, path := range paths {
		folder := strings.TrimSuffix(path, "/*")
		if !slices.ContainsFunc(sources, func(source string) bool { return Within(source, folder) }) {
			all = append(all, options.Protected{Path: path, Why: "excluded from Time Machine"})
		}
	}
	return all, err
}

// OutputOf returns what a program prints that knows the settings of Time Machine.
func OutputOf(ctx context.Context, program string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Env = options.WithoutSecrets(os.Environ())
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("ask macOS for the settings of Time Machine with %s: %w; allow the terminal full disk access",
			program, err)
	}
	return out, nil
}

// Resolve follows the links of a path as far as it exists, and returns an absolute path.
func Resolve(path string) string {
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

// Within reports whether an absolute path is a folder or lies below it.
func Within(path, folder string) bool {
	return strings.HasPrefix(path+"/", strings.TrimSuffix(filepath.Clean(folder), "/")+"/")
}
