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
	Own     [][2]string // folders of the backup itself, and what they are; "" does not count
	Sources []string    // what is named is taken even if Time Machine leaves it out
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
	mounts, err := localfs.Mounts()
	if err != nil {
		return nil, err
	}
	s := &Scope{Skip: func(dev, ino uint64) bool { return known[identity{dev, ino}] }}
	s.Rules, s.Warnings, err = cfg.Spec.Rules(os.ReadFile, cfg.Env, func(b *rules.Builder) {
		for _, own := range cfg.Own {
			cfg.protect(b, own[0], own[1], known)
		}
		for _, m := range mounts {
			if m.Type != mount.Type {
				continue
			}
			b.Protect(m.Path, "a mount of snapshots")
			if slices.ContainsFunc(cfg.Sources, func(source string) bool { return Within(m.Path, source) }) {
				cfg.Note(human.Printable(m.Path) + " is left out: snapshots are mounted there")
			}
		}
		if runtime.GOOS == "darwin" {
			b.Hollow(localfs.SystemVolumes, "a volume of the system, whose files appear at the root", cfg.Sources)
			if cfg.Spec.ExcludesTimeMachine() {
				leaveOutByTimeMachine(ctx, b, cfg, mounts)
				b.Name(cfg.Sources)
			}
		}
	})
	return s, err
}

// protect leaves a folder of the backup itself out, and adds it to known.
func (cfg *Config) protect(b *rules.Builder, path, why string, known map[identity]bool) {
	if path == "" {
		return
	}
	path = Resolve(path)
	b.Protect(path, why)
	dir, err := localfs.OpenDir(path)
	if err != nil {
		return // does not exist yet: its path protects it
	}
	defer dir.Release()
	if st, err := dir.Fstat(); err == nil {
		known[identity{st.Dev, st.Ino}] = true
	}
}

// leaveOutByTimeMachine leaves out what Time Machine excludes on this Mac now, but for sources of this backup.
func leaveOutByTimeMachine(ctx context.Context, b *rules.Builder, cfg Config, mounts []localfs.Mount) {
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
	if err := leaveOut(b, m, cfg.Sources); err != nil {
		cfg.Note(err.Error())
	}
}

// leaveOut leaves out what Time Machine excludes, but for what is one of sources or contains one. The error says what
// is not known.
func leaveOut(b *rules.Builder, m *job.Mac, sources []string) error {
	paths, err := m.TimeMachineExclusions()
	for _, path := range paths {
		folder, contents := strings.CutSuffix(path, "/*")
		add := b.Protect
		if contents {
			add = b.ProtectIn
		}
		if !slices.ContainsFunc(sources, func(source string) bool { return Within(source, folder) }) {
			add(folder, "excluded from Time Machine")
		}
	}
	return err
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
