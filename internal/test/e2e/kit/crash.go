package kit

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// Killed runs the test again in a role, kills it after delay, and reports whether that was before it ended by itself.
// The delay begins when the child reports that it is ready.
func Killed(t *testing.T, role string, delay time.Duration) bool {
	t.Helper()
	cmd := Again(t, role)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(out)
	var said strings.Builder
	for line := ""; line != Ready+"\n"; {
		line, err = lines.ReadString('\n')
		said.WriteString(line)
		if err != nil {
			_ = cmd.Wait() // or complaints may still be coming in
			require.NoError(t, err, "%s%s", said.String(), complaints.String())
		}
	}
	time.Sleep(delay)
	require.NoError(t, cmd.Process.Kill())
	rest, _ := io.ReadAll(lines)
	err = cmd.Wait()
	if err == nil {
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, status.Signaled(), "the child failed before it was killed: %s%s", rest, complaints.String())
	return true
}

const Ready = "ready for its end"

// Hold reports that this process is ready, and waits for its end.
func Hold() {
	fmt.Println(Ready)
	select {}
}

// Halfway is a role in which the process is held in the midst of its work, however slow or quick the machine is.
const Halfway = "halfway in "

// OpenEngine opens the repository in dir with the cache beside it.
func OpenEngine(t testing.TB, dir string) *Engine {
	t.Helper()
	st, err := local.Open(filepath.Join(dir, "repo"), nil)
	require.NoError(t, err)
	return &Engine{T: t, Store: st, Parallel: Parallel(2, 2, 2), Open: OpenOptions(filepath.Join(dir, "cache"))}
}

// CrashJob stores in small pieces, so that there are many moments to be killed at.
func (e *Engine) CrashJob(src string) (job backup.Job) {
	job = e.Job(src)
	job.Session.Tuning.DataPack, job.Session.Tuning.TreePack, job.Session.Tuning.Segment = 128<<10, 32<<10, 4
	job.Session.Tuning.Frame = 32 << 10
	return job
}

// Churn makes the i-th generation of the source.
func Churn(t testing.TB, src string, i int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(i)))
	for n := range 40 {
		path := filepath.Join(src, fmt.Sprintf("d%d", n%5), fmt.Sprintf("f%d", rng.IntN(60)))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, testkit.Noise(rng.Uint64(), 1<<rng.IntN(18)), 0o644))
	}
}
