package scan

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// memory remembers listings of directories by their paths, and what their entries were.
type memory struct {
	mu       sync.Mutex
	listings map[string][]byte
	entries  map[string]string
	failed   []string
	excluded int
	now      func() time.Time                  // nil: the clock
	blind    bool                              // stats are always equal: only times of directories differ
	onEntry  func(d *Directory, listed []byte) // before a listing is recalled
}

func newMemory() *memory {
	return &memory{listings: map[string][]byte{}, entries: map[string]string{}}
}

func (m *memory) Lookup(d *Directory, buffer []byte) (listed, larger []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	larger = append(buffer[:0], m.listings[d.Path()]...)
	if m.onEntry != nil {
		m.onEntry(d, larger)
	}
	return larger, larger
}

func contents(d *Directory) string {
	var b bytes.Buffer
	for i := range d.Entries {
		e := &d.Entries[i]
		fmt.Fprintf(&b, "%q %d %d %v %v\n", e.Name, e.Type, e.Ino, e.ModTime(), e.Changed())
	}
	return b.String()
}

func (m *memory) Unchanged(d *Directory) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, ok := m.entries[d.Path()]
	return m.blind || ok && was == contents(d)
}

func (m *memory) Refresh() bool { return true }

func (m *memory) Directory(_ context.Context, d *Directory, _ *report.Clock) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[d.Path()] = contents(d)
	if d.Listing != nil {
		m.listings[d.Path()] = bytes.Clone(d.Listing)
	}
	return d.Err
}

func (m *memory) Entry(d *Directory, name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = append(m.failed, fmt.Sprint(d.Join(name), ": ", err))
}

func (m *memory) Excluded(_ *Directory, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.excluded += n
}

// walk walks root with a memory, and returns how many operations that took.
func (m *memory) walk(t *testing.T, root string, set *rules.Set) uint64 {
	t.Helper()
	gate := iopolicy.New(iopolicy.Config{Name: "test", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Important))
	pick, err := Sources([]string{root})
	require.NoError(t, err)
	for len(pick.Children) > 0 {
		pick = pick.Children[0]
	}
	if set == nil {
		set = rules.NewBuilder().Compile()
	}
	opt := Options{
		Workers: 3, Rules: set, Ledger: report.New(time.Now), Cache: m, Now: m.now,
		Gate: func(*localfs.Dir, string) *iopolicy.Pass { return pass },
	}
	require.NoError(t, Walk(t.Context(), pick, opt, m))
	return gate.Stats().Operations
}

// planted is plant, on a file system that dates its directories.
func planted(t *testing.T, dirs, files int) string {
	t.Helper()
	root := plant(t, dirs, files)
	dir, err := localfs.OpenDir(root)
	require.NoError(t, err)
	defer dir.Release()
	info, err := dir.FS()
	require.NoError(t, err)
	if !info.Dated {
		t.Skipf("names are not remembered on %s, where temporary directories are: set TMPDIR", info.Type)
	}
	return root
}

// seen is what a walk without memory finds.
func seen(t *testing.T, root string) map[string]string {
	t.Helper()
	m := newMemory()
	m.walk(t, root, nil)
	return m.entries
}

// quiet waits until later changes get other timestamps than earlier ones.
func quiet() { time.Sleep(60 * time.Millisecond) }

// A directory that is as it was is not read again, and not opened if it holds no others.
func TestNamesThatAreRememberedAreNotRead(t *testing.T) {
	testkit.Slow(t)
	const dirs, files = 60, 20
	root := planted(t, dirs, files)
	quiet()
	all := dirs + dirs/20 + 1 // with those between, and the root
	objects := dirs*files + all - 1
	const ofRoot = 3 // its status, that of its file system, and its mount
	m := newMemory()
	// Open, names, end; and the status of each, to be sure of what was read.
	require.EqualValues(t, objects+4*all+ofRoot, m.walk(t, root, nil))
	require.Len(t, m.listings, all)
	first := m.entries
	m.entries = map[string]string{}
	for path, was := range first {
		m.entries[path] = was
	}
	require.EqualValues(t, objects+all-dirs+ofRoot, m.walk(t, root, nil))
	require.Equal(t, first, m.entries)
	require.Empty(t, m.failed)
}

// If an entry is new to the cache, the names are read after all. Only directories that were examined from outside are
// statted twice.
func TestNamesAreReadWhereSomethingIsNew(t *testing.T) {
	const dirs, files = 20, 10
	root := planted(t, dirs, files)
	quiet()
	m := newMemory()
	m.walk(t, root, nil)
	clear(m.entries)
	all := dirs + dirs/20 + 1
	require.EqualValues(t, dirs*files+all-1+3*all+dirs+3, m.walk(t, root, nil))
}

// What changed just now is not remembered: another change might leave no trace.
func TestNamesThatAreTooYoungAreNotRemembered(t *testing.T) {
	m := newMemory()
	m.now = func() time.Time { return time.Unix(0, 0) } // before all timestamps
	m.walk(t, planted(t, 5, 5), nil)
	require.Empty(t, m.listings)
}

func TestNamesOnUntrustedFileSystemsAreNotRemembered(t *testing.T) {
	at := t.TempDir()
	testkit.Mount(t, "ramfs", "ramfs", at, 0, "")
	require.NoError(t, os.MkdirAll(filepath.Join(at, "a/b"), 0o755))
	quiet()
	m := newMemory()
	m.walk(t, at, nil)
	require.Len(t, m.entries, 3)
	require.Empty(t, m.listings)
}

// Whatever is remembered wrongly, the walk finds what is there, and nothing is called missing.
func TestWrongNamesAreNotBelieved(t *testing.T) {
	root := planted(t, 2, 6)
	quiet()
	want := seen(t, root)
	var some string
	for path, what := range want {
		if bytes.Count([]byte(what), []byte("\n")) == 6 {
			some = path
		}
	}
	for name, harm := range map[string]func(names []string) []string{
		"one that does not exist": func(names []string) []string { return append(names, "zz") },
		"one that was forgotten":  func(names []string) []string { return names[1:] },
		"none":                    func([]string) []string { return nil },
		"only others":             func([]string) []string { return []string{"a", "zz"} },
		"another one":             func(names []string) []string { return append(names[:2:2], "zz") },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			m.walk(t, root, nil)
			m.onEntry = func(d *Directory, listed []byte) {
				if d.Path() != some {
					return
				}
				stamp := d.stamp()
				var names []string
				arena, ok := readListing(listed, &stamp, nil,
					func(off, n int, _ tree.Type, _ uint64) { names = append(names, fmt.Sprint(off, " ", n)) })
				require.True(t, ok)
				for i, at := range names {
					var off, n int
					_, err := fmt.Sscan(at, &off, &n)
					require.NoError(t, err)
					names[i] = string(arena[off : off+n])
				}
				names = harm(names)
				slices.Sort(names)
				var w listingWriter
				w.begin(&stamp)
				for _, name := range names {
					w.add([]byte(name), tree.File, 1)
				}
				m.listings[some] = bytes.Clone(w.end())
			}
			m.walk(t, root, nil) // puts the harm in its place
			m.onEntry = nil
			m.walk(t, root, nil)
			require.Equal(t, want, m.entries)
			require.Empty(t, m.failed)
			require.Zero(t, m.excluded)
		})
	}
}

// Whatever happens to names between two walks, the second finds it. Times that are set back do not hide it.
func TestEveryChangeOfNamesIsFound(t *testing.T) {
	testkit.Slow(t)
	root := planted(t, 3, 5)
	var dir string
	for path, what := range seen(t, root) {
		if bytes.Count([]byte(what), []byte("\n")) == 5 {
			dir = filepath.Join(root, path)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("first"), []byte("1"), 0o644))
	m := newMemory()
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"nothing", func() error { return nil }},
		{"added", func() error { return os.WriteFile(at("second"), nil, 0o644) }},
		{"linked", func() error { return os.Link(at("first"), at("third")) }},
		{"renamed", func() error { return os.Rename(at("third"), at("thirD")) }},
		{"replaced", func() error { return os.Rename(at("thirD"), at("second")) }},
		{"removed", func() error { return os.Remove(at("second")) }},
		{"a directory", func() error { return os.Mkdir(at("sub"), 0o755) }},
		{"in place of a file", func() error {
			if err := os.Remove(at("first")); err != nil {
				return err
			}
			return os.Mkdir(at("first"), 0o755)
		}},
		{"a link", func() error { return os.Symlink("nowhere", at("link")) }},
		{"moved away and another in its place", func() error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.MkdirAll(filepath.Join(dir, "new"), 0o755)
		}},
		{"and back", func() error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.Rename(dir+".old", dir)
		}},
	} {
		t.Run(change.name, func(t *testing.T) {
			quiet()
			m.walk(t, root, nil)
			before, err := os.Stat(dir)
			require.NoError(t, err)
			quiet()
			require.NoError(t, change.do())
			require.NoError(t, os.Chtimes(dir, before.ModTime(), before.ModTime()))
			m.blind, m.entries = true, map[string]string{}
			m.walk(t, root, nil)
			m.blind = false
			require.Equal(t, seen(t, root), m.entries)
			require.Empty(t, m.failed)
		})
	}
}

// New rules apply to names that were cached earlier, and names that older rules excluded are not lost. Changes to an
// unmounted disk leave no trace in the times of its directories: names cached under one mount are not used in the next,
// though device, inode, size and times are the same.
func TestNamesOfAnotherMountAreRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts an image: needs root")
	}
	image, point := filepath.Join(t.TempDir(), "image"), t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Skipf("needs an ext4 image that can be mounted: %s: %v: %s", name, err, out)
		}
	}
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 8<<20))
	run("mkfs.ext4", "-q", image)
	mount := func() { run("mount", "-o", "loop", image, point) }
	mount()
	t.Cleanup(func() { _ = unix.Unmount(point, 0) })
	for _, name := range []string{"d/one", "d/e/f/deep", "g/leaf"} {
		path := filepath.Join(point, "tree", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	m, root := newMemory(), filepath.Join(point, "tree")
	require.Eventually(t, func() bool { // until all of it has settled
		m.walk(t, root, nil)
		return len(m.listings) == 5
	}, time.Minute, 20*time.Millisecond)
	dir := func() localfs.FSInfo {
		d, err := localfs.OpenDir(root)
		require.NoError(t, err)
		defer d.Release()
		info, err := d.FS()
		require.NoError(t, err)
		return info
	}
	before := dir()
	if !before.Dated {
		t.Skip("the kernel does not distinguish mounts")
	}
	require.Equal(t, before.Mount, dir().Mount)
	known := m.walk(t, root, nil)
	require.NoError(t, unix.Unmount(point, 0))
	mount()
	require.NotEqual(t, before.Mount, dir().Mount)
	require.Greater(t, m.walk(t, root, nil), known, "names are read")
	require.Equal(t, known, m.walk(t, root, nil), "and remembered")
}

func TestRulesMayChangeBesideRememberedNames(t *testing.T) {
	root := planted(t, 2, 5)
	require.NoError(t, os.WriteFile(filepath.Join(root, "left.out"), nil, 0o644))
	quiet()
	b := rules.NewBuilder()
	require.NoError(t, b.Exclude("*.out", false, "test"))
	m := newMemory()
	m.walk(t, root, b.Compile())
	require.Equal(t, 1, m.excluded)
	m.walk(t, root, nil)
	require.Equal(t, seen(t, root), m.entries)
	m.walk(t, root, b.Compile())
	require.Equal(t, 2, m.excluded)
	require.NotContains(t, m.entries["/"], "left.out")
}

// While a walk visits a directory by its cached names, another object replaces it.
func TestDirectoriesMayBeSwappedWhileTheyAreLookedAt(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(dir, away string) error // moves dir away, and puts something else there
		err  error
		has  []string
	}{
		{"a link to files of the same names", func(dir, away string) error {
			if err := os.Mkdir(away+".like", 0o755); err != nil {
				return err
			}
			for _, name := range []string{"file 0", "file 1", "file 2"} {
				if err := os.WriteFile(filepath.Join(away+".like", name), []byte("secret"), 0o600); err != nil {
					return err
				}
			}
			if err := os.Rename(dir, away); err != nil {
				return err
			}
			return os.Symlink(away+".like", dir)
		}, localfs.ErrNotDir, nil},
		{"a link to something else", func(dir, away string) error {
			if err := os.Rename(dir, away); err != nil {
				return err
			}
			return os.Symlink("/proc", dir)
		}, localfs.ErrNotDir, nil},
		{"another directory", func(dir, away string) error {
			if err := os.Rename(dir, away); err != nil {
				return err
			}
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			for _, name := range []string{"file 0", "file 1", "file 2", "file 3"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("new"), 0o600); err != nil {
					return err
				}
			}
			return nil
		}, nil, []string{"file 0", "file 1", "file 2", "file 3"}},
		{"nothing", os.Rename, localfs.ErrVanished, nil},
		{"a file", func(dir, away string) error {
			if err := os.Rename(dir, away); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o644)
		}, localfs.ErrNotDir, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := planted(t, 1, 3)
			quiet()
			m := newMemory()
			m.walk(t, root, nil)
			swapped := false
			m.onEntry = func(d *Directory, listed []byte) {
				if d.Path() == "/0/0" {
					require.NotEmpty(t, listed)
					require.NoError(t, c.do(filepath.Join(root, "0/0"), filepath.Join(root, "away")))
					swapped = true
				}
			}
			v := &swapVisitor{memory: m}
			pick, err := Sources([]string{root})
			require.NoError(t, err)
			for len(pick.Children) > 0 {
				pick = pick.Children[0]
			}
			require.NoError(t, Walk(t.Context(), pick, Options{
				Workers: 1, Rules: rules.NewBuilder().Compile(), Ledger: report.New(time.Now), Cache: m, Now: m.now,
			}, v))
			require.True(t, swapped)
			require.ErrorIs(t, v.err, c.err)
			require.Equal(t, c.has, v.names)
			require.Empty(t, m.failed)
		})
	}
}

// swapVisitor takes down what became of one directory.
type swapVisitor struct {
	*memory
	err   error
	names []string
}

func (v *swapVisitor) Directory(ctx context.Context, d *Directory, clock *report.Clock) error {
	if d.Path() != "/0/0" {
		return v.memory.Directory(ctx, d, clock)
	}
	v.err = d.Err
	for i := range d.Entries {
		v.names = append(v.names, d.Entries[i].Name)
	}
	return nil
}
