package local_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

var config = store.Name{Kind: store.Config}

func create(t *testing.T) (*local.Store, string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "repo")
	st, err := local.Create(root, nil)
	require.NoError(t, err)
	return st, root
}

func pack(i int) store.Name {
	return store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x%062x", i%256, i)}
}

// tree returns all paths below root.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var paths []string
	require.NoError(t, filepath.WalkDir(root, func(p string, _ os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, p)
		paths = append(paths, rel)
		return err
	}))
	return paths
}

func TestContract(t *testing.T) {
	testkit.Slow(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		st, _ := create(t)
		return st
	})
}

func TestRaceOfTwoProcesses(t *testing.T) {
	testkit.Slow(t)
	storetest.Race(t, t.TempDir, func(t *testing.T, place string) store.Store {
		st, err := local.Create(place, nil)
		require.NoError(t, err)
		return st
	})
}

// Each way to give a file a name that nothing has gives it once, also beside a folder and beside the other ways.
func TestWaysToPlaceNew(t *testing.T) {
	root, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	fd := int(root.Fd())
	for way, place := range local.WaysToPlaceNew() {
		for _, name := range []string{"free", "file", "folder"} {
			for _, old := range []string{"temp", "free", "file", "folder"} {
				_ = os.RemoveAll(filepath.Join(root.Name(), old))
			}
			require.NoError(t, os.WriteFile(filepath.Join(root.Name(), "temp"), []byte("new"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(root.Name(), "file"), []byte("old"), 0o600))
			require.NoError(t, os.Mkdir(filepath.Join(root.Name(), "folder"), 0o700))
			err := place(fd, "temp", name)
			if name != "free" {
				require.ErrorIs(t, err, unix.EEXIST, "%s, %s", way, name)
				require.FileExists(t, filepath.Join(root.Name(), "temp"))
				continue
			}
			require.NoError(t, err, way)
			got, err := os.ReadFile(filepath.Join(root.Name(), name))
			require.NoError(t, err)
			require.Equal(t, "new", string(got), way)
			require.NoFileExists(t, filepath.Join(root.Name(), "temp"), way)
		}
	}
}

func TestLayoutAndModes(t *testing.T) {
	defer unix.Umask(unix.Umask(0)) // the modes are ours, not the umask's
	st, root := create(t)
	require.Equal(t, root, st.Location())
	for _, name := range storetest.Names() {
		require.NoError(t, st.Put(t.Context(), name, []byte("x")))
	}
	id := storetest.Names()[1].ID
	require.ElementsMatch(t, []string{
		".", "config", "keys", "keys/" + id, "packs", "packs/0f", "packs/0f/" + id, "index", "index/" + id,
		"snapshots", "snapshots/" + id, "leases", "leases/" + id, "marks", "marks/" + id, "trees",
	}, tree(t, root))
	require.NoError(t, filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700 | os.ModeDir
		}
		require.Equal(t, want, info.Mode(), p)
		return nil
	}))
}

func TestCreateIsIdempotentAndOpenFindsIt(t *testing.T) {
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	_, err := local.Create(root, nil)
	require.NoError(t, err)
	again, err := local.Open(root, nil)
	require.NoError(t, err)
	p := make([]byte, 1)
	require.NoError(t, again.Get(t.Context(), config, 0, p))
	require.Equal(t, "c", string(p))
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := local.Open(filepath.Join(dir, "absent"), nil)
	require.ErrorIs(t, err, store.ErrNotExist)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = local.Open(file, nil)
	require.ErrorContains(t, err, "not a folder")
	_, err = local.Create(file, nil)
	require.ErrorContains(t, err, "choose another path")
	_, err = local.Create(filepath.Join(file, "beneath"), nil)
	require.Error(t, err)
	for _, open := range []func(string, *iopolicy.Pass) (*local.Store, error){local.Open, local.Create} {
		_, err = open("", nil)
		require.ErrorContains(t, err, "path is empty")
	}
	st, err := local.Open(dir, nil)
	require.NoError(t, err, "a folder that is no repository is recognised by its config")
	_, err = st.Stat(t.Context(), config)
	require.ErrorIs(t, err, store.ErrNotExist)
	require.NotErrorIs(t, err, store.ErrGone)
	require.Equal(t, []string{".", "file"}, tree(t, dir), "opening must not write")
}

func TestForeignFilesAreLeftOut(t *testing.T) {
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), pack(0xab), []byte("x")))
	require.NoError(t, st.Put(t.Context(), pack(0xaa), []byte("x")))
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Snapshot, ID: "ab"}, []byte("x")))
	id, trees := "ab"+pack(0xaa).ID[2:], pack(0xab).ID
	for _, p := range []string{
		"packs/ab/._" + id, "snapshots/._" + id,
		"packs/ab/.DS_Store", "packs/ab/" + strings.ToUpper(id), "packs/" + id, "packs/zz/" + id, "packs/ab/" +
			store.TempPrefix + "1",
		"packs/cd/" + id, "packs/ab/cd" + id[2:], "packs/ab/" + id + "0", "snapshots/" + store.TempPrefix + "0",
		"snapshots/ab~",
		"snapshots/ff/ff", "leases/desktop.ini", "trees/.DS_Store", "trees/" + strings.ToUpper(trees), "trees/" + id,
		"trees/ab/" + trees, "packs/ab/" + trees, "trees/" + store.TempPrefix + "0",
	} {
		path := filepath.Join(root, p)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("foreign"), 0o600))
	}
	require.NoError(t, os.Symlink("ab", filepath.Join(root, "snapshots/ac")))
	require.NoError(t, unix.Mkfifo(filepath.Join(root, "snapshots/ad"), 0o600))
	for kind, want := range map[store.Kind]int{store.Pack: 2, store.Snapshot: 1, store.Lease: 0} {
		n := 0
		for info, err := range st.List(t.Context(), kind) {
			require.NoError(t, err)
			require.Equal(t, int64(1), info.Size)
			n++
		}
		require.Equal(t, want, n, kind)
	}
	for _, id := range []string{"ac", "ad", "ff"} { // a symlink, a fifo, a folder: none is followed, none hangs
		name := store.Name{Kind: store.Snapshot, ID: id}
		_, err := st.Stat(t.Context(), name)
		require.ErrorIs(t, err, store.ErrNotExist)
		require.Error(t, st.Get(t.Context(), name, 0, make([]byte, 1)))
	}
}

// A read beyond the end names the size of the file, wherever it begins.
func TestShortReadNamesTheSize(t *testing.T) {
	st, _ := create(t)
	require.NoError(t, st.Put(t.Context(), config, []byte("0123456789")))
	for _, off := range []int64{5, 10, 1000} {
		err := st.Get(t.Context(), config, off, make([]byte, 100))
		require.ErrorIs(t, err, store.ErrShort)
		require.ErrorContains(t, err, "it has 10 bytes, want 100 from")
	}
}

func TestMissingFoldersAreEmptyAndComeBack(t *testing.T) {
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), config, nil))
	// see TestFolderOfSnapshotsIsMissing
	kept := func(kind store.Kind) bool { return kind == store.Config || kind == store.Snapshot }
	for kind := range store.Kinds() {
		if !kept(kind) {
			require.NoError(t, os.RemoveAll(filepath.Join(root, kind.Folder())))
		}
	}
	for _, name := range storetest.Names() {
		if kept(name.Kind) {
			continue
		}
		for _, err := range st.List(t.Context(), name.Kind) {
			require.NoError(t, err)
		}
		require.NoError(t, st.Put(t.Context(), name, []byte("x")))
		_, err := st.Stat(t.Context(), name)
		require.NoError(t, err)
	}
}

func TestFileInThePlaceOfAFolderSaysWhatToDo(t *testing.T) {
	st, dir := create(t)
	for kind, folder := range map[store.Kind][]string{store.Pack: {"packs", "trees"}, store.Index: {"index"}} {
		for _, name := range folder {
			path := filepath.Join(dir, name)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			var failed error
			for _, err := range st.List(t.Context(), kind) {
				failed = err
			}
			require.ErrorContains(t, failed, path+" is a file, where the repository has a folder: rename it")
			require.NoError(t, os.Remove(path))
		}
	}
}

func TestStaleTempsAreRemovedOnFirstPut(t *testing.T) {
	_, root := create(t)
	old := time.Now().Add(-25 * time.Hour)
	young := time.Now().Add(-23 * time.Hour)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "packs/ab"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "foreign"), 0o700))
	for _, dir := range []string{".", "packs/ab", "snapshots", "foreign"} {
		for name, when := range map[string]time.Time{
			store.TempPrefix + "old": old, store.TempPrefix + "young": young, "tmp-of-someone-else": old,
		} {
			p := filepath.Join(root, dir, name)
			require.NoError(t, os.WriteFile(p, []byte("x"), 0o600))
			require.NoError(t, os.Chtimes(p, when, when))
		}
	}
	before := tree(t, root)
	st, err := local.Open(root, nil)
	require.NoError(t, err)
	for _, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
	}
	require.Equal(t, before, tree(t, root), "a reader removes nothing")
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Lease, ID: "1"}, nil))
	want := []string{"leases/1"}
	for _, p := range before {
		if filepath.Base(p) != store.TempPrefix+"old" || strings.HasPrefix(p, "foreign") {
			want = append(want, p)
		}
	}
	require.ElementsMatch(t, want, tree(t, root))
}

func TestTargetGone(t *testing.T) {
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	st, err := local.Open(root, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	mounted := root + ".mounted"
	for _, mountPoint := range []bool{true, false} { // an empty mount point is left behind, or nothing at all
		require.NoError(t, os.Rename(root, mounted))
		if mountPoint {
			require.NoError(t, os.Mkdir(root, 0o700))
		}
		require.ErrorIs(t, st.Put(t.Context(), pack(2), []byte("x")), store.ErrGone)
		require.ErrorIs(t, st.Get(t.Context(), pack(1), 0, make([]byte, 1)), store.ErrGone)
		require.ErrorIs(t, st.Delete(t.Context(), pack(1)), store.ErrGone)
		_, err = st.Stat(t.Context(), pack(1))
		require.ErrorIs(t, err, store.ErrGone)
		require.NotErrorIs(t, err, store.ErrNotExist)
		require.ErrorContains(t, err, "mount what holds")
		for kind := range store.Kinds() {
			if kind == store.Config {
				continue
			}
			n := 0
			for _, err := range st.List(t.Context(), kind) {
				require.ErrorIs(t, err, store.ErrGone)
				n++
			}
			require.Equal(t, 1, n, kind)
		}
		if mountPoint {
			require.Equal(t, []string{"."}, tree(t, root), "nothing is written into an empty mount point")
			require.NoError(t, os.Remove(root))
		}
		require.NoError(t, os.Rename(mounted, root))
		require.NoError(t, st.Get(t.Context(), pack(1), 0, make([]byte, 1)), "it came back")
	}
}

func TestDenied(t *testing.T) {
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	if os.Geteuid() == 0 {
		// root passes every mode; a folder that takes no new entries at all refuses it as well.
		if err := setImmutable(filepath.Join(root, "keys"), true); err != nil {
			t.Skipf("needs a file system with the immutable flag: %v", err)
		}
		defer func() { require.NoError(t, setImmutable(filepath.Join(root, "keys"), false)) }()
	} else {
		require.NoError(t, os.Chmod(filepath.Join(root, "keys"), 0o500))
	}
	err := st.Put(t.Context(), store.Name{Kind: store.Key, ID: "1"}, []byte("x"))
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "grant this user access")
}

func TestNoSpaceSaysWhatToDo(t *testing.T) {
	mount := t.TempDir()
	testkit.MountMemory(t, mount, "1m")
	st, err := local.Create(filepath.Join(mount, "repo"), nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	err = st.Put(t.Context(), pack(1), make([]byte, 4<<20))
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.ErrorContains(t, err, "larger disk")
	require.ErrorContains(t, err, "tidemark forget --repo "+filepath.Join(mount, "repo")+" --keep-daily 7 ")
	for _, p := range tree(t, mount) {
		require.NotContains(t, p, store.TempPrefix, "the temporary file still takes the space")
	}
	require.NoError(t, st.Put(t.Context(), pack(2), make([]byte, 100_000)), "there is space for a smaller one")
}

// TestCrash kills a writer again and again, at any moment. Whatever lies under a final name must be whole.
func TestCrash(t *testing.T) {
	testkit.Slow(t)
	if dir := os.Getenv("TIDEMARK_CHILD"); dir != "" {
		writeForever(dir)
	}
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	for round := range 12 {
		cmd := child(t, "TestCrash", root)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line := make([]byte, 1)
		for range 1 + round*3 { // after a different number of Puts each time
			_, err := out.Read(line)
			require.NoError(t, err, "the writer ended by itself")
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		verifyPacks(t, st)
	}
}

// selfDescribing returns a pack that encodes its own length and content.
func selfDescribing(i int) []byte {
	size := 300_000 + i*7919%900_000
	return binary.LittleEndian.AppendUint64(storetest.Pattern(size, uint64(i)), uint64(size)<<32|uint64(i))
}

// writeForever replaces a few packs over and over, and writes one byte to stdout per Put, until it is killed.
func writeForever(root string) {
	st, err := local.Open(root, nil)
	if err != nil {
		panic(err)
	}
	for i := os.Getpid(); ; i++ {
		if err := st.Put(context.Background(), pack(i%5), selfDescribing(i&0xffffff)); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.Write([]byte("."))
	}
}

func verifyPacks(t *testing.T, st *local.Store) {
	t.Helper()
	n := 0
	for info, err := range st.List(t.Context(), store.Pack) {
		require.NoError(t, err)
		data := make([]byte, info.Size)
		require.NoError(t, st.Get(t.Context(), info.Name, 0, data))
		require.GreaterOrEqual(t, len(data), 8, "torn: %s", info.Name)
		i := int(binary.LittleEndian.Uint64(data[len(data)-8:]) & 0xffffff)
		require.True(t, bytes.Equal(selfDescribing(i), data), "torn: %s", info.Name)
		n++
	}
	require.Positive(t, n)
}

func child(t *testing.T, test, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "TIDEMARK_CHILD="+dir)
	return cmd
}

func TestSuspendedWriterMayTryAgain(t *testing.T) {
	err := local.RenameError(filepath.Join(t.TempDir(), "absent"), "final", unix.ENOENT)
	require.ErrorIs(t, err, store.ErrTemporary)
	err = local.RenameError(filepath.Join(t.TempDir(), "no", "folder"), "final", unix.ENOENT)
	require.NotErrorIs(t, err, store.ErrTemporary)
}

func TestExplain(t *testing.T) {
	st, root := create(t)
	const again = " and run the command again"
	full := ": free some space, with 'tidemark forget --repo " + root + " --keep-daily 7 --keep-weekly 5 " +
		"--keep-monthly 12 --prune' for example, or move " + root + " to a larger disk," +
		again + "; what was stored so far is kept and not sent twice"
	denied := ": run as the user who owns " + root + ", or grant this user access to it"
	slow := ": check that the disk or share of " + root + " is connected and mounted," + again
	readOnly := ": the file system of " + root + " is mounted read-only; mount it for writing"
	gone := ": connect or mount what holds " + root + again
	for errno, want := range map[unix.Errno]struct {
		next  string // what to do
		kinds []error
	}{
		unix.ENOENT:    {"", []error{store.ErrNotExist}}, // it means something to the caller
		unix.ENOSPC:    {full, []error{store.ErrNoSpace}},
		unix.EDQUOT:    {full, []error{store.ErrNoSpace}},
		unix.EACCES:    {denied, []error{store.ErrDenied}},
		unix.EPERM:     {denied, []error{store.ErrDenied}},
		unix.EROFS:     {readOnly, []error{store.ErrDenied}},
		unix.ENODEV:    {gone, []error{store.ErrGone}},
		unix.ENOTCONN:  {gone, []error{store.ErrGone, store.ErrTemporary}},
		unix.ESTALE:    {slow, []error{store.ErrTemporary}},
		unix.ETIMEDOUT: {slow, []error{store.ErrTemporary}},
		unix.EIO: {": look at the log of the kernel, for " +
			"example with 'dmesg', and at its cable; if it fails again, copy the repository to another disk", nil},
	} {
		err := st.Explain(&os.PathError{Op: "write", Path: "/x", Err: errno})
		require.ErrorIs(t, err, errno)
		require.ErrorContains(t, err, errno.Error()+")"+want.next)
		for _, sentinel := range []error{
			store.ErrNotExist, store.ErrNoSpace, store.ErrDenied, store.ErrGone, store.ErrTemporary, store.ErrShort,
			store.ErrName,
		} {
			require.Equal(t, slices.Contains(want.kinds, sentinel), errors.Is(err, sentinel), "%v: %v", errno, err)
		}
	}
}

// TestTempsOfKilledRunsAreRemoved: a temporary file without the lock of its writer goes with the next run on this
// machine, unless it is so young that it may have no lock yet.
func TestTempsOfKilledRunsAreRemoved(t *testing.T) {
	st, root := create(t)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	for name, age := range map[string]time.Duration{"killed": 2 * time.Minute, "running": time.Hour, "young": 0} {
		p := filepath.Join(root, "packs", store.TempPrefix+name)
		require.NoError(t, os.WriteFile(p, []byte("x"), 0o600))
		require.NoError(t, os.Chtimes(p, time.Time{}, time.Now().Add(-age)))
	}
	f, err := os.Open(filepath.Join(root, "packs", store.TempPrefix+"running"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	st, err = local.Open(root, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
	require.True(t, store.EndsWithProcess(st), "the test needs a disk of this machine")
	left := tree(t, root)
	require.NotContains(t, left, "packs/"+store.TempPrefix+"killed")
	require.Contains(t, left, "packs/"+store.TempPrefix+"running")
	require.Contains(t, left, "packs/"+store.TempPrefix+"young")
}
