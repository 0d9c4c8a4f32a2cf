package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// disk is a file system in a file, which can be mounted and taken away.
type disk struct {
	t     *testing.T
	image string
}

// newDisk makes one. It skips where that is not possible.
func newDisk(t *testing.T, kind string) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount")
	}
	size := map[string]int64{"ext4": 32 << 20, "xfs": 300 << 20, "btrfs": 128 << 20}[kind]
	image := filepath.Join(t.TempDir(), "disk.img")
	f, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	if out, err := exec.Command("mkfs."+kind, "-q", image).CombinedOutput(); err != nil {
		t.Skipf("needs mkfs.%s: %v: %s", kind, err, out)
	}
	return &disk{t, image}
}

// mount mounts the disk at a folder until the test ends or the function is called.
func (d *disk) mount(point string) (unmount func()) {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", "loop", d.image, point).CombinedOutput(); err != nil {
		d.t.Skipf("needs loop mounts: %v: %s", err, out)
	}
	gone := false
	unmount = func() {
		if !gone {
			gone = true
			require.NoError(d.t, unix.Unmount(point, unix.MNT_DETACH))
		}
	}
	d.t.Cleanup(unmount)
	return unmount
}

// entries lists what is below a folder.
func entries(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	for _, p := range tree(t, path) {
		if p != "." && !strings.HasPrefix(p, "lost+found") {
			all = append(all, p)
		}
	}
	return all
}

// ready makes a repository with a config and a pack.
func ready(t *testing.T, root string) *local.Store {
	t.Helper()
	st, err := local.Create(root, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), config, []byte("the config of this repository")))
	st, err = local.Open(root, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	return st
}

// The disk is unmounted while packs are written: later packs are refused, acknowledged ones are on the disk, and the
// folder beneath stays empty. When the disk is back, the next run continues.
func TestUnmountedInTheMiddle(t *testing.T) {
	testkit.Slow(t)
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		for _, when := range []int{1, 3, 7, 20} {
			t.Run(fmt.Sprintf("%s after %d", kind, when), func(t *testing.T) {
				d, point := newDisk(t, kind), t.TempDir()
				unmount := d.mount(point)
				st := ready(t, point)
				stored, reached, failed := make(chan int, 1), make(chan struct{}), make(chan error, 1)
				go func() {
					for i := 2; ; i++ {
						if err := st.Put(t.Context(), pack(i), make([]byte, 100_000)); err != nil {
							stored <- i - 1
							failed <- err
							return
						}
						if i == when+1 {
							close(reached)
						}
					}
				}()
				<-reached
				unmount()
				last, err := <-stored, <-failed
				if !errors.Is(err, store.ErrGone) {
					// The pack that was being written when the disk went lost its folder in the middle.
					err = st.Put(t.Context(), pack(last+1), []byte("x"))
				}
				require.ErrorIs(t, err, store.ErrGone)
				require.NotErrorIs(t, err, store.ErrTemporary, "another attempt would not mend it")
				require.ErrorContains(t, err, "connect or mount what holds "+point)
				require.Empty(t, entries(t, point), "what lies beneath")

				d.mount(point)
				st, err = local.Open(point, nil) // the device number may have changed
				require.NoError(t, err)
				require.NoError(t, st.Put(t.Context(), pack(last+2), []byte("x")), "it is back")
				for i := 1; i <= last; i++ {
					_, err := st.Stat(t.Context(), pack(i))
					require.NoError(t, err, "acknowledged pack %d", i)
				}
			})
		}
	}
}

// Another disk over the place gets nothing, whether it is empty, holds another repository or a copy of this one.
func TestAnotherDiskMountedOver(t *testing.T) {
	for _, holds := range []string{"nothing", "another repository", "a copy of the repository"} {
		t.Run(holds, func(t *testing.T) {
			mine, other, point, away := newDisk(t, "ext4"), newDisk(t, "ext4"), t.TempDir(), t.TempDir()
			mine.mount(point)
			st := ready(t, point)
			unmount := other.mount(away)
			switch holds {
			case "another repository":
				st := ready(t, away)
				require.NoError(t, st.Put(t.Context(), config, []byte("another config")))
			case "a copy of the repository":
				out, err := exec.Command("cp", "-a", point+"/.", away).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			before := entries(t, away)
			unmount()
			uncover := other.mount(point)
			err := st.Put(t.Context(), pack(2), []byte("x"))
			require.ErrorIs(t, err, store.ErrGone)
			require.ErrorContains(t, err, "connect or mount what holds")
			if holds != "nothing" {
				require.ErrorContains(t, err, "another file system is mounted there")
			}
			require.Equal(t, before, entries(t, point))
			uncover()
			require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
			require.Subset(t, entries(t, point), []string{"config", pack(1).Path(), pack(2).Path()}, "it is back")
		})
	}
}

// A copy of the repository is mounted over it during a write. The error names the cause, also where the folder of the
// pack does not exist on the copy.
func TestAnotherDiskMountedOverWhileFilesAreWritten(t *testing.T) {
	mine, other, point := newDisk(t, "ext4"), newDisk(t, "ext4"), t.TempDir()
	away := t.TempDir()
	mine.mount(point)
	st := ready(t, point)
	unmount := other.mount(away)
	out, err := exec.Command("cp", "-a", point+"/.", away).CombinedOutput()
	require.NoError(t, err, "%s", out)
	unmount()
	data := make([]byte, 256<<10)
	for round := range 8 {
		var all sync.WaitGroup
		begun := make(chan struct{})
		failed := make(chan error, 1)
		all.Go(func() {
			for i := 0; ; i++ {
				name := store.Name{Kind: store.Pack, ID: fmt.Sprintf("%x%x", round+1, i%4+10)}
				err := st.Put(t.Context(), name, data)
				if i == 0 {
					close(begun)
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
		<-begun
		uncover := other.mount(point)
		all.Wait()
		err := <-failed
		require.NotErrorIs(t, err, store.ErrNotExist)
		require.True(t, errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrTemporary), "%v", err)
		uncover()
	}
}

// The packs may be on a disk of their own below the repository.
func TestPacksOnADiskOfTheirOwn(t *testing.T) {
	root := filepath.Join(t.TempDir(), "repo")
	_, err := local.Create(root, nil)
	require.NoError(t, err)
	d, packs := newDisk(t, "ext4"), filepath.Join(root, "packs")
	unmount := d.mount(packs)
	st := ready(t, root)
	unmount()
	err = st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "the pack folder in "+root+" is not the one that was there when this run began: "+
		"another file system is mounted there, or a copy lies there): connect or mount what holds "+root)
	require.Empty(t, entries(t, packs))
	d.mount(packs)
	st, err = local.Open(root, nil) // the device number may have changed
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
}

func TestMountedReadOnlyInTheMiddle(t *testing.T) {
	d, point := newDisk(t, "ext4"), t.TempDir()
	d.mount(point)
	st := ready(t, point)
	remount := func(how string) {
		out, err := exec.Command("mount", "-o", "remount,"+how, point).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	remount("ro")
	err := st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "mounted read-only; mount it for writing")
	remount("rw")
	require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
}

// A repository that is being made has no marker yet; from its config on it is guarded.
func TestGuardBeginsWithTheConfig(t *testing.T) {
	d, point := newDisk(t, "ext4"), t.TempDir()
	unmount := d.mount(point)
	st, err := local.Create(point, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Key, ID: "ab"}, []byte("k")))
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	require.NoError(t, st.Put(t.Context(), config, []byte("rewritten")))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	unmount()
	err = st.Put(t.Context(), pack(2), []byte("x"))
	require.ErrorIs(t, err, store.ErrGone)
	require.ErrorContains(t, err, "connect or mount what holds "+point+" and run the command again; nothing was written "+
		"to the folder that is there now")
	require.Empty(t, entries(t, point))
}

// A copy that is moved into the place of the repository on the same disk gets no files. The original does when it is
// back.
func TestCopyMovedIntoPlace(t *testing.T) {
	testkit.Slow(t)
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		for _, what := range []string{"the repository", "the config", "the folder of packs"} {
			t.Run(kind+"/"+what, func(t *testing.T) {
				d, point := newDisk(t, kind), t.TempDir()
				d.mount(point)
				root := filepath.Join(point, "repo")
				st := ready(t, root)
				path := map[string]string{
					"the repository": root, "the config": filepath.Join(root, "config"),
					"the folder of packs": filepath.Join(root, "packs"),
				}[what]
				away := filepath.Join(point, "away")
				out, err := exec.Command("cp", "-a", path, path+".copy").CombinedOutput()
				require.NoError(t, err, "%s", out)
				require.NoError(t, os.Rename(path, away))
				require.NoError(t, os.Rename(path+".copy", path))
				before := entries(t, root)
				err = st.Put(t.Context(), pack(2), []byte("x"))
				require.ErrorIs(t, err, store.ErrGone)
				require.NotErrorIs(t, err, store.ErrTemporary, "another attempt would not mend it")
				require.ErrorContains(t, err, "a copy lies there")
				require.Equal(t, before, entries(t, root))

				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, os.Rename(away, path))
				require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")), "it is back")
			})
		}
	}
}

// An empty pack folder that was removed is created again, with another inode.
func TestFolderOfPacksMadeAgain(t *testing.T) {
	d, point := newDisk(t, "ext4"), t.TempDir()
	d.mount(point)
	st, err := local.Create(point, nil)
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), config, []byte("c")))
	require.NoError(t, st.Guard(t.Context()))
	packs := filepath.Join(point, "packs")
	require.NoError(t, os.Remove(packs))
	require.NoError(t, os.Mkdir(filepath.Join(point, "takes its number"), 0o700))
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	require.NoError(t, st.Put(t.Context(), pack(2), []byte("x")))
}
