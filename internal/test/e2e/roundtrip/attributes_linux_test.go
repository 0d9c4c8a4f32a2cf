package roundtrip

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// loseAttributes makes the kernel answer every question for extended attributes, or for inode flags, with EIO, for good
// and for all threads of this process.
func loseAttributes(t *testing.T, flags bool) {
	t.Helper()
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	const number, request = 0, 24 // where struct seccomp_data has the call and the low half of its second argument
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	give := func(answer uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: answer}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: k}
	}
	eio := give(unix.SECCOMP_RET_ERRNO | uint32(unix.EIO))
	filter := []unix.SockFilter{load(number)}
	if flags {
		filter = append(filter, unless(unix.SYS_IOCTL, 3), load(request), unless(unix.FS_IOC_GETFLAGS, 1), eio)
	} else {
		for _, call := range []uint32{
			unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR, unix.SYS_GETXATTRAT,
			unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_LISTXATTRAT,
		} {
			filter = append(filter, unless(call, 1), eio)
		}
	}
	filter = append(filter, give(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno)
}

// attributed is a tree in which an object of every kind has an attribute, and those that can have flags have one.
func attributed() testkit.Dir {
	with := func(of testkit.Entry, flags uint32) testkit.With {
		return testkit.With{Of: of, Xattrs: map[string]string{"trusted.t": "v"}, Flags: flags}
	}
	const flag = testkit.FlagNoDump
	return testkit.Dir{
		"small": with(testkit.File{Data: []byte("s")}, flag),
		"large": with(testkit.File{Data: testkit.Noise(1, 3<<20)}, flag),
		"dir":   with(testkit.Dir{"in": testkit.File{Data: []byte("i")}}, flag),
		"two":   with(testkit.File{Data: []byte("of two names")}, flag),
		"other": testkit.Dir{"two": testkit.Hardlink{To: "two"}},
		"link":  with(testkit.Symlink{Target: "x"}, 0),
		"fifo":  with(testkit.Fifo{}, 0),
		"dev":   with(testkit.Device{Major: 1, Minor: 3}, 0),
	}
}

// TestUnreadAttributesAreReadAgain: attributes and flags that could not be read, although nothing changes, are what
// every later backup tries again; the one that can read them heals the snapshot, and the next has nothing to do.
func TestUnreadAttributesAreReadAgain(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	if what, dir, ok := strings.Cut(kit.Role(), " "); ok {
		backUpWithout(t, what, dir)
		return
	}
	testkit.RequireRoot(t)
	for _, what := range []string{"attributes", "flags"} {
		for _, how := range []string{"as ever", "without a cache", "ctime ignored"} {
			dir := testkit.TempDir(t)
			src := filepath.Join(dir, "src")
			testkit.Write(t, src, attributed())
			writeOut(t, src)
			kit.Settle()
			st, err := local.Create(filepath.Join(dir, "repo"), nil)
			require.NoError(t, err)
			e := kit.NewEngine(t, st)
			e.Open.Cache.Dir = filepath.Join(dir, "cache")
			out, err := kit.Again(t, what+" "+dir).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: "+t.Name())

			job := e.Job(src)
			job.Source.Comparing.IgnoreCtime = how == "ctime ignored"
			if how == "without a cache" {
				require.NoError(t, os.RemoveAll(e.Open.Cache.Dir))
			}
			healed, _, err := e.Backup(job)
			require.NoError(t, err)
			require.False(t, healed.Failed, "%s, %s: %q", what, how, e.Failures())
			e.RequireRestored(src)
			next, totals, err := e.Backup(job)
			require.NoError(t, err)
			require.False(t, next.Failed)
			require.Zero(t, totals.Bytes.Wanted, "%s, %s: nothing is read again", what, how)
			require.Zero(t, totals.Others.Changed)
			require.Equal(t, e.Subtree(healed, src), e.Subtree(next, src))
			e.RequireSound()
		}
	}
}

// backUpWithout makes backups of a tree in which metadata of an object is unreadable.
func backUpWithout(t *testing.T, what, dir string) {
	t.Helper()
	concerned := []string{"small", "large", "dir"}
	if what == "attributes" {
		concerned = append(concerned, "link", "fifo", "dev")
	}
	loseAttributes(t, what == "flags")
	e, src := kit.OpenEngine(t, dir), filepath.Join(dir, "src")
	for range 2 { // it is tried again, and fails again
		made, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		require.True(t, made.Failed)
		lines := e.Failures()
		got := e.Objects(made.Snapshot.Tree, src)
		require.Equal(t, "s", got["small"].Data, "the content is kept")
		for _, name := range concerned {
			require.True(t, slices.ContainsFunc(lines, func(line string) bool {
				return strings.HasPrefix(line, filepath.Join(src, name)+": ") && strings.Contains(line, "input/output error")
			}), "%s is reported: %q", name, lines)
			require.Equal(t, tree.Static, got[name].Outcome, "this is about the content of %s", name)
			if what == "flags" {
				require.Zero(t, got[name].Flags, name)
			} else {
				require.Empty(t, got[name].Xattrs, name)
			}
		}
	}
}

// TestTooManyAttributesAreReportedEachTime: attributes that a node cannot hold are no less missing the second time.
func TestTooManyAttributesAreReportedEachTime(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	testkit.RequireRoot(t)
	src := filepath.Join(testkit.RamDir(t), "src") // file systems in memory set no limit to trusted attributes
	testkit.Write(t, src, testkit.Dir{
		"file": testkit.File{Data: []byte("f")}, "link": testkit.Symlink{Target: "x"},
		"dir": testkit.Dir{"in": testkit.File{}},
	})
	const most = 140
	name := func(i int) string { return fmt.Sprintf("trusted.%d", i) }
	value := testkit.Noise(1, 60_000)
	for _, path := range []string{"file", "link", "dir"} {
		for i := range most {
			err := unix.Lsetxattr(filepath.Join(src, path), name(i), value, 0)
			if errors.Is(err, unix.ENOSPC) {
				t.Skip("needs a file system that keeps 8 MiB of attributes of one object")
			}
			require.NoError(t, err)
		}
	}
	kit.Settle()
	e := kit.NewEngine(t, nil)
	for range 3 {
		made, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		require.True(t, made.Failed)
		require.Len(t, e.Failures(), 3, "%q", e.Failures())
	}
	for _, path := range []string{"file", "link", "dir"} {
		for i := range most - 1 {
			require.NoError(t, unix.Lremovexattr(filepath.Join(src, path), name(i)))
		}
	}
	kit.Settle()
	made, _, err := e.Backup(e.Job(src))
	require.NoError(t, err)
	require.False(t, made.Failed, "%q", e.Failures())
	e.RequireRestored(src)
}
