package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	sourceObjects = 84_000
	sourceBytes   = 1_300_000_000
	sourceLargest = 8 << 20 // larger files are not source text

	// How many of a thousand files are edited, added, deleted and renamed, and how many of a thousand folders are
	// renamed, from one version to the next.
	editedFiles, addedFiles, deletedFiles, renamedFiles, renamedFolders = 10, 3, 3, 2, 1
)

// source copies trees that machines have anyway.
type source struct {
	seed    uint64
	objects int
	bytes   int64
	roots   []string
}

func newSource(seed uint64, scale float64, roots []string) *source {
	return &source{
		seed: seed, objects: scaled(sourceObjects, scale), bytes: int64(float64(sourceBytes) * scale), roots: roots,
	}
}

// Roots returns the trees of source text that this machine has, the most widespread first: Go's module cache, Go,
// headers, Python, Rust, documents.
func Roots(ctx context.Context) []string {
	var roots []string
	for _, name := range []string{"GOMODCACHE", "GOROOT"} {
		if out, err := exec.CommandContext(ctx, "go", "env", name).Output(); err == nil {
			roots = append(roots, strings.TrimSpace(string(out)))
		}
	}
	home, _ := os.UserHomeDir()
	roots = append(roots, "/usr/include", "/usr/lib/python3", filepath.Join(home, ".cargo/registry/src"),
		filepath.Join(home, ".rustup/toolchains"), "/usr/share", "/usr/lib")
	return slices.DeleteFunc(roots, func(root string) bool {
		st, err := os.Stat(root)
		return err != nil || !st.IsDir()
	})
}

// write copies one tree after the other until there is enough.
func (s *source) write(ctx context.Context, root string) error {
	if len(s.roots) == 0 {
		return errors.New("no trees to copy: name some")
	}
	c := &copying{left: s.objects, bytes: s.bytes}
	for i, from := range s.roots {
		if c.full() {
			break
		}
		to := filepath.Join(root, fmt.Sprintf("%d-%s", i, filepath.Base(from)))
		if err := c.tree(ctx, from, to); err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
	}
	return nil
}

// copying is how much may still be copied.
type copying struct {
	left  int
	bytes int64
	times []stamp // of the folders, set when they are complete
}

type stamp struct {
	path string
	info fs.FileInfo
}

func (c *copying) full() bool { return c.left <= 0 || c.bytes <= 0 }

// tree copies one tree: folders, files that are not too large, and symbolic links, with their modes and times. It skips
// unreadable objects, and Go's cache of downloads, which holds the same files packed.
func (c *copying) tree(ctx context.Context, from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.full():
			return fs.SkipAll
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && path == filepath.Join(from, "cache"):
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // gone since it was listed
		}
		return c.object(path, filepath.Join(to, strings.TrimPrefix(path, from)), info)
	})
	for _, f := range slices.Backward(c.times) {
		if err == nil {
			err = os.Chtimes(f.path, f.info.ModTime(), f.info.ModTime())
		}
	}
	c.times = nil
	return err
}

// object copies one object.
func (c *copying) object(from, to string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		c.times = append(c.times, stamp{to, info})
		c.left--
		return os.Mkdir(to, info.Mode().Perm()|0o700)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err == nil {
			err = os.Symlink(target, to)
		}
		c.left--
		return err
	case !info.Mode().IsRegular() || info.Size() > sourceLargest:
		return nil
	}
	text, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(to, text, info.Mode().Perm()|0o600)
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	c.left--
	c.bytes -= int64(len(text))
	return err
}

// next makes the changes of one day of work: files are edited, added, deleted and renamed, and a few folders renamed.
func (s *source) next(ctx context.Context, root string, version int) (Change, error) {
	var files, folders []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			files = append(files, path)
		case d.IsDir() && strings.Count(path[len(root):], "/") > 1:
			folders = append(folders, path)
		}
		return nil
	})
	if err != nil {
		return Change{}, err
	}
	c := &Change{}
	for _, path := range files {
		if ctx.Err() != nil {
			return *c, context.Cause(ctx)
		}
		if err := s.work(c, path, s.dice(root, path, version)); err != nil {
			return *c, err
		}
	}
	for _, path := range slices.Backward(folders) { // those below others first
		if d := s.dice(root, path, version); d.below(1000) < renamedFolders {
			if err := os.Rename(path, fmt.Sprintf("%s-v%d", path, version)); err != nil {
				return *c, err
			}
			c.Renamed++
		}
	}
	return *c, nil
}

// dice returns the dice of an object in a version.
func (s *source) dice(root, path string, version int) dice {
	d := throw(s.seed, uint64(version))
	for _, b := range []byte(path[len(root):]) {
		d = dice(d.next() ^ uint64(b))
	}
	return d
}

// work applies the random change of one file, mostly none.
func (s *source) work(c *Change, path string, d dice) error {
	x := d.below(1000)
	if x >= editedFiles+addedFiles+deletedFiles+renamedFiles {
		return nil
	}
	ending := filepath.Ext(path)
	other := fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ending), d.below(1<<30), ending)
	if x -= editedFiles; x < 0 {
		c.Changed++
		return s.edit(c, path, path, d)
	}
	if x -= addedFiles; x < 0 {
		c.Added++
		return s.edit(c, path, other, d)
	}
	if x -= deletedFiles; x < 0 {
		c.Deleted++
		return os.Remove(path)
	}
	c.Renamed++
	return os.Rename(path, other)
}

// edit writes a file with a few lines of it changed, added or left out, to itself or to another path.
func (s *source) edit(c *Change, from, to string, d dice) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	for range 1 + d.below(6) {
		at := d.below(len(lines))
		switch d.below(3) {
		case 0:
			lines[at] = fmt.Appendf(nil, "changed %x\n", d.next())
		case 1:
			lines = slices.Insert(lines, at, fmt.Appendf(nil, "added %x\n", d.next()))
		default:
			lines[at] = nil
		}
	}
	text = append(bytes.Join(lines, nil), fmt.Sprintf("edited %x\n", d.next())...)
	c.Bytes += int64(len(text))
	return os.WriteFile(to, text, 0o644)
}
