package target_test

import (
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// serve mounts a new folder by way of a daemon of FUSE, until the test is over or kill is called. It skips where that
// is not possible.
func serve(t *testing.T) (folder, point string, kill func()) {
	t.Helper()
	path, err := exec.LookPath("bindfs")
	if err != nil {
		t.Skip("needs bindfs")
	}
	folder, point = disk(t, 64<<20, "", "mkfs.ext4", "-q", "-m0"), t.TempDir()
	daemon := exec.Command(path, "-f", folder, point)
	device := func() uint64 {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(point, &st))
		return st.Dev
	}
	beneath, ended := device(), make(chan struct{})
	require.NoError(t, daemon.Start())
	go func() {
		_ = daemon.Wait() // it is killed
		close(ended)
	}()
	kill = func() {
		_ = daemon.Process.Kill() // it may have ended
		<-ended
	}
	t.Cleanup(func() {
		_ = unix.Unmount(point, unix.MNT_DETACH) // it may be gone
		kill()
	})
	for limit := time.Now().Add(time.Minute); device() == beneath; runtime.Gosched() {
		select {
		case <-ended:
			t.Skip("needs FUSE: bindfs ended at once")
		default:
			require.True(t, time.Now().Before(limit), "bindfs mounts")
		}
	}
	return folder, point, kill
}

// libfuse moves an open file away before it replaces it, which a reader may notice.
func TestFUSE(t *testing.T) {
	testkit.Slow(t)
	folder, point, _ := serve(t)
	r := run(t, point)
	require.Contains(t, []string{"safe", "degraded because of rename"}, r.Sentence())
	require.Contains(t, probe(t, r, "file system").Evidence, "fuse")
	require.Empty(t, r.Identity.ID)
	_, err := target.MeasureFolder(t.Context(), point, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"lost+found"}, names(t, folder))
}

// A daemon that dies during the probes is an error, not a result.
func TestFUSEDaemonDies(t *testing.T) {
	for _, operations := range []uint64{1, 20, 500} {
		_, point, kill := serve(t)
		gate := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for gate.Stats().Operations < operations && t.Context().Err() == nil {
				runtime.Gosched()
			}
			kill()
		}()
		r, err := target.Run(t.Context(), point, target.Options{Pass: gate.Pass(iopolicy.NewClient(iopolicy.Important))})
		<-done
		if err == nil { // the probes were faster
			require.NotEqual(t, target.Unfit, r.Verdict(), "after %d operations", operations)
			continue
		}
		require.NotErrorIs(t, err, target.ErrNotFolder, "after %d operations", operations)
	}
}
