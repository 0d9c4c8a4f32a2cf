package throttle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// mountCounters are the counters of an NFS mount, in a folder that stands for /proc.
type mountCounters struct {
	mu    sync.Mutex
	file  string
	bytes int
}

// add moves so much, which takes a server a millisecond.
func (c *mountCounters) add(bytes int) error {
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += bytes
	text := fmt.Sprintf("device nas:/b mounted on /mnt with fstype nfs4 statvers=1.1\n\tbytes:\t0 0 0 0 %d 0 0 0\n",
		c.bytes)
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text) // which grows, so no reader sees a part
	return errors.Join(err, f.Close())
}

// A gate whose watcher compares own bytes with the counters of a mount: no operation may wait for good, own I/O is not
// taken for that of others, and I/O of others is seen.
func TestGateAndLedgerBesideCountersOfAMount(t *testing.T) {
	testkit.Slow(t)
	const size = 64 << 10
	for _, policy := range []iopolicy.Policy{iopolicy.Utility, iopolicy.Throttle} {
		t.Run(policy.String(), func(t *testing.T) {
			c := &mountCounters{file: filepath.Join(t.TempDir(), "self/mountstats")}
			require.NoError(t, os.Mkdir(filepath.Dir(c.file), 0o700))
			require.NoError(t, c.add(1<<30))
			client := iopolicy.NewClient(policy)
			m := newManager(t, Config{Client: client, Folders: Folders{Proc: filepath.Dir(filepath.Dir(c.file))}})
			m.mu.Lock()
			e := m.add(device.Info{Medium: device.Remote, Key: "nas", Server: "nas", FS: "nfs4", Source: "nas:/b"},
				device.Remote, false)
			m.mu.Unlock()
			mode, why := e.watch.Mode()
			require.Equal(t, diskwatch.Gaps, mode, why)
			run := func(done func(operations int) bool) {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						pass := e.pass(client)
						for n := 0; !done(n); n++ {
							_, err := pass.Do(t.Context(), iopolicy.Op{Kind: iopolicy.Read, Bytes: size, Certain: true},
								func(int) (int, error) { return size, c.add(size) })
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			}
			run(func(n int) bool { return n == 200 })
			s := e.gate.Stats()
			require.EqualValues(t, 4*200*size, s.Moved.Read)
			require.Zero(t, s.Windows[0], "own I/O is not foreign")
			deadline := time.Now().Add(time.Minute)
			run(func(int) bool {
				return c.add(8<<20) != nil || e.gate.Stats().Windows[0] > 0 || time.Now().After(deadline)
			})
			require.NotZero(t, e.gate.Stats().Windows[0], "others are seen")
		})
	}
}
