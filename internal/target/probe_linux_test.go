package target_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// mount mounts something at a new folder. It skips where that is not possible.
func mount(t *testing.T, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	point := t.TempDir()
	if out, err := exec.Command("mount", append(args, point)...).CombinedOutput(); err != nil {
		t.Skipf("needs mount %s: %v: %s", strings.Join(args, " "), err, out)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(point, unix.MNT_DETACH)) })
	return point
}

// disk makes a file system in a file and mounts it.
func disk(t *testing.T, size int64, mountOptions string, mkfs ...string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	if out, err := exec.Command(mkfs[0], append(mkfs[1:], image)...).CombinedOutput(); err != nil {
		t.Skipf("needs %s: %v: %s", strings.Join(mkfs, " "), err, out)
	}
	return mount(t, "-o", "loop"+mountOptions, image)
}

// overlay mounts an overlay over the temporary folder of the test.
func overlay(t *testing.T, options string) string {
	t.Helper()
	base := disk(t, 64<<20, "", "mkfs.ext4", "-q")
	for _, dir := range []string{"lower", "upper", "work"} {
		require.NoError(t, os.Mkdir(filepath.Join(base, dir), 0o700))
	}
	return mount(t, "-t", "overlay", "overlay", "-o",
		"lowerdir="+base+"/lower,upperdir="+base+"/upper,workdir="+base+"/work"+options)
}

func run(t *testing.T, path string) *target.Report {
	t.Helper()
	before := names(t, path)
	report, err := target.Run(t.Context(), path, target.Options{})
	require.NoError(t, err)
	require.Equal(t, before, names(t, path), "nothing is left behind")
	for _, p := range report.Probes {
		t.Logf("%-12s %-8s %s (%s)", p.Name, p.Result, p.Evidence, p.Remedy)
		require.NotEmpty(t, p.Evidence)
		if p.Result == target.Degraded || p.Result == target.Unfit {
			require.NotEmpty(t, p.Remedy, "what is done about it")
		}
	}
	return report
}

func names(t *testing.T, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	all := []string{}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// probe returns one of a report.
func probe(t *testing.T, r *target.Report, name string) target.Probe {
	t.Helper()
	for _, p := range r.Probes {
		if p.Name == name {
			return p
		}
	}
	require.Fail(t, "no probe "+name)
	return target.Probe{}
}

func TestFileSystems(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	ext4 := func(options string) func(*testing.T) string {
		return func(t *testing.T) string { return disk(t, 64<<20, options, "mkfs.ext4", "-q", "-m0") }
	}
	for name, c := range map[string]struct {
		make     func(t *testing.T) string
		sentence string
		folds    bool
	}{
		"ext4":         {ext4(""), "safe", false},
		"ext4, noexec": {ext4(",noexec,nosuid,nodev"), "safe", false},
		"ext4, folding case": {
			func(t *testing.T) string {
				path := disk(t, 64<<20, "", "mkfs.ext4", "-q", "-m0", "-O", "casefold")
				dir := filepath.Join(path, "folds")
				require.NoError(t, os.Mkdir(dir, 0o700))
				out, err := exec.Command("chattr", "+F", dir).CombinedOutput()
				if err != nil {
					t.Skipf("needs a folder that folds case: %s", out)
				}
				return dir
			}, "safe", true,
		},
		"xfs":   {func(t *testing.T) string { return disk(t, 400<<20, "", "mkfs.xfs", "-q") }, "safe", false},
		"btrfs": {func(t *testing.T) string { return disk(t, 400<<20, "", "mkfs.btrfs", "-q") }, "safe", false},
		"vfat":  {func(t *testing.T) string { return disk(t, 64<<20, "", "mkfs.vfat") }, "safe", true},
		"tmpfs": {
			func(t *testing.T) string { return mount(t, "-t", "tmpfs", "tmpfs", "-o", "size=64m") },
			"degraded because of file system", false,
		},
		"overlay": {func(t *testing.T) string { return overlay(t, "") }, "safe", false},
		"volatile overlay": {func(t *testing.T) string { return overlay(t, ",volatile") }, "degraded because of flush",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, c.make(t))
			require.Equal(t, c.sentence, r.Sentence())
			require.Equal(t, c.folds, strings.Contains(probe(t, r, "case").Evidence, "are one file"))
			require.Equal(t, target.Good, probe(t, r, "rename").Result)
			require.Equal(t, target.Good, probe(t, r, "write").Result)
			require.Equal(t, target.Good, probe(t, r, "clock").Result)
		})
	}
}

func TestReadOnly(t *testing.T) {
	path := disk(t, 32<<20, ",ro", "mkfs.ext4", "-q")
	r := run(t, path)
	require.Equal(t, target.Unfit, r.Verdict())
	require.Contains(t, probe(t, r, "file system").Remedy, "mount it for writing")
	require.Equal(t, "unfit because of file system", r.Sentence())
}

func TestFullDisk(t *testing.T) {
	for _, left := range []int{0, 100 << 10} {
		path := disk(t, 32<<20, "", "mkfs.ext4", "-q", "-m0")
		fill(t, filepath.Join(path, "full"), left)
		r := run(t, path)
		require.Equal(t, "unfit because of write", r.Sentence())
		require.Contains(t, probe(t, r, "write").Remedy, "free some space")
		require.NotContains(t, probe(t, r, "write").Evidence, "what was stored so far", "nothing was stored")
		_, err := target.MeasureFolder(t.Context(), path, nil)
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.NotContains(t, err.Error(), "what was stored so far")
	}
}

func TestPseudoFileSystem(t *testing.T) {
	r, err := target.Run(t.Context(), "/proc", target.Options{})
	require.NoError(t, err)
	require.Equal(t, target.Unfit, r.Verdict())
}

func TestNotAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{file: "name the folder", file + "-not": "is the disk or share mounted?"} {
		_, err := target.Run(t.Context(), path, target.Options{})
		require.ErrorIs(t, err, target.ErrNotFolder)
		require.ErrorContains(t, err, want)
		_, err = target.MeasureFolder(t.Context(), path, nil)
		require.ErrorIs(t, err, target.ErrNotFolder)
	}
}

// A run that is cancelled at any moment leaves nothing behind.
func TestCancelled(t *testing.T) {
	path := testkit.RamDir(t)
	gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	pass := gate.Pass(iopolicy.NewClient(iopolicy.Important))
	cause := errors.New("enough")
	for i := 0; i < 12; i += testkit.Rounds(6, 3, 1) {
		for name, call := range map[string]func(ctx context.Context) error{
			"probe": func(ctx context.Context) error {
				_, err := target.Run(ctx, path, target.Options{Pass: pass})
				return err
			},
			"measure": func(ctx context.Context) error {
				_, err := target.MeasureFolder(ctx, path, pass)
				return err
			},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			before := gate.Stats().Operations
			go func() {
				for range time.Tick(50 * time.Microsecond) {
					if gate.Stats().Operations >= before+uint64(i*i*7) || ctx.Err() != nil {
						cancel(cause)
						return
					}
				}
			}()
			if err := call(ctx); err != nil {
				require.ErrorIs(t, err, cause, name)
			}
			cancel(nil)
			require.Empty(t, names(t, path), name)
		}
	}
}

func TestStaleFoldersAreRemoved(t *testing.T) {
	path := t.TempDir()
	for name, age := range map[string]time.Duration{"old": 25 * time.Hour, "young": 23 * time.Hour} {
		dir := filepath.Join(path, store.TempPrefix+"probe-"+name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "packs", "ab"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "packs", "ab", "file"), nil, 0o600))
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(dir, at, at))
	}
	_, err := target.Run(t.Context(), path, target.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{store.TempPrefix + "probe-young"}, names(t, path))
}

func TestMeasureFolder(t *testing.T) {
	testkit.Slow(t)
	path := disk(t, 300<<20, "", "mkfs.ext4", "-q")
	before := names(t, path)
	s, err := target.MeasureFolder(t.Context(), path, nil)
	require.NoError(t, err)
	require.Equal(t, before, names(t, path))
	require.Positive(t, s.Large.Elapsed)
	require.Positive(t, s.Small.Elapsed)
	for _, line := range s.Lines() {
		t.Log(line)
	}
	_, err = target.MeasureFolder(t.Context(), disk(t, 32<<20, "", "mkfs.ext4", "-q"), nil)
	require.ErrorIs(t, err, store.ErrNoSpace)
}

// fill fills a disk up to left bytes.
func fill(t *testing.T, path string, left int) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	info, err := f.Stat()
	require.NoError(t, err)
	require.NoError(t, f.Truncate(info.Size()-int64(left)))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}
