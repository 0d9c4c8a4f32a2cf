package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// gate blocks each process that opens the file until then has run: the kernel breaks a lease for that. This is the
// moment between scan and read of the files behind the gate.
func gate(t *testing.T, path string, then func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGIO)
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		signal.Stop(broken)
		f.Close()
		t.Skipf("this file system has no leases: %v", err)
	}
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-broken:
			then()
		case <-done:
		}
		f.Close()
	}()
	t.Cleanup(func() {
		close(done)
		<-over
		signal.Stop(broken)
	})
}

// behind makes files with these contents below dir, and a file with its own name as content that a backup reads first:
// files are read in the order of their inodes. The file system chooses which free inode a file gets, so all files are
// made before they get names.
func behind(t *testing.T, dir, first string, contents map[string]string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o755))
	var made []string
	for i := range len(contents) + 1 {
		made = append(made, filepath.Join(dir, fmt.Sprint("made", i)))
		require.NoError(t, os.WriteFile(made[i], nil, 0o644))
	}
	slices.SortFunc(made, func(a, b string) int { return cmp.Compare(kit.Inode(t, a), kit.Inode(t, b)) })
	for i, name := range append([]string{first}, slices.Collect(maps.Keys(contents))...) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.Rename(made[i], path))
	}
	kit.Written(t, dir, map[string]string{first: first})
	kit.Written(t, dir, contents)
	for name := range contents {
		require.Less(t, kit.Inode(t, filepath.Join(dir, first)), kit.Inode(t, filepath.Join(dir, name)))
	}
}

// TestFilesSwappedBetweenScanAndRead turns files into something else after they were scanned and before they are
// opened: in memory, and on a disk, where small files are not looked at again before they are read.
func TestFilesSwappedBetweenScanAndRead(t *testing.T) {
	for place, dir := range map[string]string{"memory": testkit.RamDir(t), "disk": t.TempDir()} {
		t.Run(place, func(t *testing.T) { filesSwapped(t, dir) })
	}
}

func filesSwapped(t *testing.T, dir string) {
	testkit.NoLeaks(t)
	src, out := filepath.Join(dir, "src"), kit.Outside(t, dir)
	at := func(name string) string { return filepath.Join(src, name) }
	victims := map[string]string{}
	for _, name := range []string{"link", "fifo", "socket", "directory", "vanished", "other", "device", "sub/grown",
		"grown", "shrunk"} {
		victims[name] = strings.Repeat(name, 40)
	}
	victims["big vanished"], victims["first"],
		victims["former"] = strings.Repeat("v", 400_000), "one of three names", "read by its other name"
	victims["big former"] = strings.Repeat("former", 100_000)
	behind(t, src, "gate", victims)
	for first, names := range map[string][]string{"first": {"later", "sub/later"}, "former": {"x former"},
		"big former": {"x big former"}} {
		for _, name := range names {
			require.NoError(t, os.Link(at(first), at(name)))
		}
	}
	kit.Settle()

	swap := func() error {
		listener, err := net.Listen("unix", at("tmp"))
		if err != nil {
			return err
		}
		defer listener.Close()
		remove := func(names ...string) (err error) {
			for _, name := range names {
				err = errors.Join(err, os.Remove(at(name)))
			}
			return err
		}
		err = remove("link", "fifo", "socket", "directory", "vanished", "big vanished", "first")
		err = errors.Join(err, os.Symlink(filepath.Join(out, "secret"), at("link")), unix.Mkfifo(at("fifo"), 0o644),
			os.Rename(at("tmp"), at("socket")), os.Mkdir(at("directory"), 0o755),
			os.WriteFile(at("directory/inside"), []byte("x"), 0o644),
			os.WriteFile(at("tmp"), []byte("another file of this name"), 0o644), os.Rename(at("tmp"), at("other")),
			os.WriteFile(at("tmp"), []byte("replaced"), 0o644), os.Rename(at("tmp"), at("former")),
			os.WriteFile(at("tmp"), []byte("replaced too"), 0o644), os.Rename(at("tmp"), at("big former")),
			os.WriteFile(at("grown"), []byte(strings.Repeat("g", 3<<20)), 0o644), os.Truncate(at("shrunk"), 3))
		if os.Geteuid() == 0 {
			err = errors.Join(err, remove("device"), unix.Mknod(at("device"), unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))))
		}
		return err
	}
	var swapErr error
	gate(t, at("gate"), func() { swapErr = swap() })
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(1, 1, 2)
	made, totals, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.NoError(t, swapErr)
	require.Empty(t, e.Failures())
	nodes := e.Objects(made.Snapshot.Tree, src)
	kit.RequireNoSecret(t, nodes)
	files := uint64(0)
	for _, n := range nodes {
		if n.Type == tree.File {
			files++
		}
	}
	require.Equal(t, files, totals.Files.New, "what was replaced or has vanished does not count as new")
	for _, name := range []string{"link", "fifo", "socket", "directory", "vanished", "big vanished", "first"} {
		require.NotContains(t, nodes, name)
	}
	for name, want := range map[string]string{
		"gate": "gate", "other": "another file of this name", "former": "replaced", "big former": "replaced too",
		"x former": victims["former"], "x big former": victims["big former"], "later": victims["first"],
		"sub/later": victims["first"], "grown": strings.Repeat("g", 3<<20), "shrunk": "shr",
		"sub/grown": victims["sub/grown"],
	} {
		require.Contains(t, nodes, name)
		require.Equal(t, uint64(len(want)), nodes[name].Size, name)
		require.True(t, want == nodes[name].Data, "content of %s", name)
	}
	e.RequireSound()

	_, _, err = e.Backup(e.Job(src))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	e.RequireRestored(src)
}

// TestDirectoriesSwappedBetweenScanAndOpen does the same to directories: they are opened relative to their parent and
// never through a link.
func TestDirectoriesSwappedBetweenScanAndOpen(t *testing.T) {
	testkit.NoLeaks(t)
	dir := testkit.RamDir(t)
	src, out := filepath.Join(dir, "src"), kit.Outside(t, dir)
	at := func(name string) string { return filepath.Join(src, name) }
	kit.Written(t, src, map[string]string{
		"a/f": "a", "to link/f": "l", "to root/f": "r", "to file/f": "f", "vanished/sub/f": "v",
		"moved/sub/f": "m", "z/f": "z",
	})
	kit.Settle()
	var swapped atomic.Bool
	first := kit.Inode(t, at("a"))
	job := kit.NewEngine(t, nil).Job(src)
	var swapErr error
	job.Source.Skip = func(_, ino uint64) bool {
		if ino == first && !swapped.Swap(true) {
			for _, name := range []string{"to link", "to root", "to file", "vanished"} {
				swapErr = errors.Join(swapErr, os.RemoveAll(at(name)))
			}
			swapErr = errors.Join(swapErr, os.Symlink(out, at("to link")), os.Symlink("/", at("to root")),
				os.WriteFile(at("to file"), []byte("x"), 0o644), os.Rename(at("moved"), at("z/moved")))
		}
		return false
	}
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(1, 2, 2)
	job.Parallel = e.Parallel
	made, _, err := e.Backup(job)
	require.NoError(t, err)
	require.NoError(t, swapErr)
	require.True(t, swapped.Load())
	require.Empty(t, e.Failures())
	nodes := e.Objects(made.Snapshot.Tree, src)
	kit.RequireNoSecret(t, nodes)
	for _, name := range []string{"to link", "to root", "to file", "vanished", "moved"} {
		require.NotContains(t, nodes, name)
	}
	require.Contains(t, nodes, "a/f")
	require.Contains(t, nodes, "z/moved/sub/f")
	e.RequireSound()

	job.Source.Skip = nil
	_, _, err = e.Backup(job)
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	e.RequireRestored(src)
}

// TestSwapStorm turns names into everything they can be while backups run over them. Nothing may be followed, hung on,
// or fail the backup, and nothing from outside may get in.
func TestSwapStorm(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	dir := testkit.RamDir(t)
	src, out := filepath.Join(dir, "src"), kit.Outside(t, dir)
	kit.Written(t, src, map[string]string{"steady/f": "steady"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	var rounds atomic.Int64
	go func() {
		defer close(stopped)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			storm(src, out, n)
			rounds.Add(1)
		}
	}()
	defer func() { close(stop); <-stopped }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // hangs only
	defer cancel()
	e := kit.NewEngine(t, nil)
	e.Parallel = kit.Parallel(4, 4, 2)
	for i := range testkit.Rounds(10, 15, 40) {
		before := rounds.Load()
		made, _, err := e.BackupCtx(ctx, e.Job(src))
		require.NoError(t, err)
		for rounds.Load() == before && i > 0 { // at least one change falls into each backup or between two
			runtime.Gosched()
		}
		nodes := e.Objects(made.Snapshot.Tree, src)
		kit.RequireNoSecret(t, nodes)
		require.Equal(t, "steady", nodes["steady/f"].Data)
	}
	e.RequireSound()
}

// storm gives each of some names another meaning.
func storm(src, out string, n int) {
	for i := range 24 {
		dir := filepath.Join(src, fmt.Sprintf("d%d", i%4))
		path := filepath.Join(dir, fmt.Sprintf("n%02d", i))
		_ = os.Mkdir(dir, 0o755)
		_ = os.RemoveAll(path)
		switch (n + i) % 7 {
		case 0:
			_ = os.Symlink(filepath.Join(out, "secret"), path)
		case 1:
			_ = unix.Mkfifo(path, 0o600)
		case 2:
			_ = os.Symlink(out, path)
		case 3, 4:
			_ = os.MkdirAll(filepath.Join(path, "deeper"), 0o755)
			_ = os.WriteFile(filepath.Join(path, "deeper", "secret"), []byte("inside"), 0o644)
		case 5:
			_ = os.Link(filepath.Join(src, "steady", "f"), path)
		default:
			_ = os.WriteFile(path, []byte(strings.Repeat("data ", n%2000)), 0o644)
		}
	}
}
