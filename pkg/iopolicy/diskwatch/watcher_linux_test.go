package diskwatch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// A program that reads at tier 3 yields to every other program on the disk.
func Example() {
	watcher, err := diskwatch.Watch(".")
	if errors.Is(err, diskwatch.ErrNoDisk) {
		watcher = nil // no counters here: the gate sees this program only
	} else if err != nil {
		fmt.Println(err)
		return
	}
	cfg := iopolicy.Config{Settings: iopolicy.DefaultSettings(), Metering: iopolicy.Metering{Meter: diskwatch.Meter()}}
	if watcher != nil {
		defer watcher.Close()
		cfg.Watcher = watcher
	}
	gate := iopolicy.New(cfg)
	fmt.Println(gate.Pass(iopolicy.NewClient(iopolicy.Throttle)).Client().Policy())
	// Output: throttle
}

// TestAnotherProcessIsSeen: another process writes and flushes a file on a real disk.
func TestAnotherProcessIsSeen(t *testing.T) {
	dir := t.TempDir()
	w, err := diskwatch.Watch(dir)
	if errors.Is(err, diskwatch.ErrNoDisk) {
		t.Skip("the temporary directory is not on a disk")
	}
	require.NoError(t, err)
	defer w.Close()
	require.Positive(t, w.Interval())
	require.Eventually(t, func() bool {
		dd := exec.Command("dd", "if=/dev/zero", "of="+filepath.Join(dir, "f"), "bs=64k", "count=4", "conv=fsync")
		require.NoError(t, dd.Run())
		return !w.Look(iopolicy.Moment{At: time.Now()}).Newest[0].IsZero()
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, w.Err())
}

func TestNoDisk(t *testing.T) {
	_, err := diskwatch.Watch("/proc")
	require.ErrorIs(t, err, diskwatch.ErrNoDisk)
	_, err = diskwatch.Watch(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = diskwatch.OpenDisks()
	require.ErrorIs(t, err, diskwatch.ErrNoDisk)
}
