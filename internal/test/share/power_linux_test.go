package share

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// journalled is a disk with a file system that survives power cuts, as servers have it, until the test is over.
type journalled struct {
	t          *testing.T
	image, dir string
}

func newJournalled(t *testing.T) *journalled {
	t.Helper()
	testkit.RequireRoot(t)
	make4, mount := testkit.RequireTool(t, "mkfs.ext4"), testkit.RequireTool(t, "mount")
	base := testkit.RamDir(t)
	j := &journalled{t: t, image: filepath.Join(base, "image"), dir: filepath.Join(base, "disk")}
	require.NoError(t, os.Mkdir(j.dir, 0o700))
	require.NoError(t, os.WriteFile(j.image, nil, 0o600))
	require.NoError(t, os.Truncate(j.image, 96<<20))
	out, err := exec.Command(make4, "-q", "-F", "-E", "lazy_itable_init=0", j.image).CombinedOutput()
	require.NoError(t, err, "%s", out)
	if out, err := exec.Command(mount, "-o", journalOptions, j.image, j.dir).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount an image: %s", out)
	}
	t.Cleanup(func() { _ = unix.Unmount(j.dir, unix.MNT_DETACH) })
	return j
}

// journalOptions keep the file system from writing its journal by itself every five seconds, which would save data
// without a flush.
const journalOptions = "loop,commit=900"

// From uapi/linux/fs.h and fs/ext4: end all work on a file system at once and write nothing more, not even the journal.
const (
	shutdown    = 0x8004587d // _IOR('X', 125, __u32)
	withoutSync = 2
)

// cut loses everything that was not on the disk, and mounts the rest. It mounts a copy of the image: a process with a
// mount namespace of its own, such as the tests of another package, keeps the old file system alive after it is
// unmounted here, and mount would attach that one again, which answers every call with an I/O error.
func (j *journalled) cut() {
	j.t.Helper()
	f, err := os.Open(j.dir)
	require.NoError(j.t, err)
	how := uint32(withoutSync)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how)))
	require.NoError(j.t, f.Close())
	if errno == unix.ENOTTY || errno == unix.EOPNOTSUPP {
		j.t.Skipf("the file system cannot pretend that power was cut: %v", errno)
	}
	require.Zero(j.t, errno)
	j.release()
	image := j.image + "+"
	out, err := exec.Command("cp", "--sparse=always", j.image, image).CombinedOutput()
	require.NoError(j.t, err, "%s", out)
	require.NoError(j.t, os.Remove(j.image))
	j.image = image
	out, err = exec.Command("mount", "-o", journalOptions, j.image, j.dir).CombinedOutput()
	require.NoError(j.t, err, "%s", out)
}

// flush makes everything durable that is on the disk now.
func (j *journalled) flush() {
	j.t.Helper()
	f, err := os.Open(j.dir)
	require.NoError(j.t, err)
	defer f.Close()
	require.NoError(j.t, unix.Syncfs(int(f.Fd())))
}

// release unmounts. The processes that were killed have the disk open for a moment more.
func (j *journalled) release() {
	j.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(j.dir, 0)
		if err == nil || time.Now().After(end) {
			require.NoError(j.t, err)
			return
		}
	}
}

// TestCutDiskIsReadableBesideAnotherMountNamespace: a process elsewhere keeps the file system from before the cut
// alive. After the cut, flushed data is there, and all other data is gone.
func TestCutDiskIsReadableBesideAnotherMountNamespace(t *testing.T) {
	t.Parallel()
	unshare := testkit.RequireTool(t, "unshare")
	j := newJournalled(t)
	keeper := exec.Command(unshare, "--mount", "--propagation", "private", "sh", "-c", "echo ready; read line")
	in, err := keeper.StdinPipe()
	require.NoError(t, err)
	out, err := keeper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, keeper.Start())
	defer func() { _, _ = in.Close(), keeper.Wait() }()
	_, err = out.Read(make([]byte, 8)) // until it has copies of all mounts
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(j.dir, "flushed"), []byte("x"), 0o600))
	j.flush()
	require.NoError(t, os.WriteFile(filepath.Join(j.dir, "lost"), []byte("x"), 0o600))
	j.cut()
	require.FileExists(t, filepath.Join(j.dir, "flushed"))
	require.NoFileExists(t, filepath.Join(j.dir, "lost"))
	require.NoError(t, os.WriteFile(filepath.Join(j.dir, "later"), []byte("x"), 0o600))
}

// TestPowerCut: the server loses power in the middle of a backup, and unflushed data is lost. The server honours
// flushes, so all acknowledged data survives.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	moments(t, 71, 2, fullPacks, func(t *testing.T, when moment) {
		j := newJournalled(t)
		m, p, first := begun(t, smbtest.Config{Folder: j.dir}, smb.Options{Patience: smb.Patience{Outage: -1}})
		src := source(t)
		done := m.during(p, when, m.job(src))
		m.server.Kill()
		j.cut()
		r := <-done
		m.server.Run()
		ended := r.requireEnd(t, false, "run the command again", store.ErrGone, store.ErrTemporary)
		m.finish(src, first, r, ended)
	})
}

// TestPowerCutAfterwards: the server loses power at the moment at which a snapshot is reported as saved, in every way
// to verify. It is there.
func TestPowerCutAfterwards(t *testing.T) {
	t.Parallel()
	for name, verify := range map[string]smb.Verify{"trailer": smb.VerifyTrailer, "off": smb.VerifyOff} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournalled(t)
			m, _, first := begun(t, smbtest.Config{Folder: j.dir}, smb.Options{Verify: verify})
			src := source(t)
			out, _ := m.requireBackup(m.job(src))
			m.server.Kill()
			j.cut()
			m.server.Run()
			m.requireListed(first, out)
			m.requireSound(src)
		})
	}
}

// TestPowerCutThatWasNotFlushed is the server that lies: "strict sync = no", and then power is cut. What it confirmed
// can be lost, and no client can help that. It is not lost in silence: the next backup sends what it misses again, and
// what does not come back is found by a check.
func TestPowerCutThatWasNotFlushed(t *testing.T) {
	t.Parallel()
	moments(t, 72, 1, fullPacks, func(t *testing.T, when moment) {
		j := newJournalled(t)
		m, p, first := begun(t, smbtest.Config{Folder: j.dir, Share: []string{"strict sync = no"}},
			smb.Options{Patience: smb.Patience{Outage: -1}})
		j.flush() // what was there before is not what this is about
		src := source(t)
		done := m.during(p, when, m.job(src))
		m.server.Kill()
		j.cut()
		r := <-done
		m.server.Run()
		r.requireEnd(t, false, "run the command again", store.ErrGone, store.ErrTemporary)
		lost := 0 // unless another process flushed everything meanwhile
		for name := range m.st.names(store.Pack) {
			if _, err := m.st.Stat(t.Context(), name); err != nil {
				require.ErrorIs(t, err, store.ErrNotExist)
				lost++
			}
		}
		t.Logf("%d of %d packs that were acknowledged are lost", lost, len(m.st.names(store.Pack)))
		saved, _ := m.requireBackup(m.job(src))
		m.requireListed(first, saved)
		fresh := m.another(m.host, smb.Options{})
		if problems := fresh.Problems(); len(problems) > 0 {
			t.Logf("the check reports %d problems", len(problems))
			return
		}
		fresh.requireRestored(src)
	})
}
