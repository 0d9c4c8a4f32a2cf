package foreign

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

const cifsStats = `Resources in use
CIFS Session: 1
Share (unique mount targets): 4
SMB Request/Response Buffer: 1 Pool size: 5
SMB Small Req/Resp Buffer: 1 Pool size: 30
Total Large 12 Small 345 Allocations
Operations (MIDs): 0

0 session 0 share reconnects
Total vfs operations: 94 maximum at one time: 2

Max requests in flight: 3
1) \\nas\IPC$
SMBs: 9
Bytes read: 0  Bytes written: 0
Open files: 0 total (local), 0 open on server
2) \\NAS\Backup	DISCONNECTED
SMBs: 214
Bytes read: 502092  Bytes written: 31457286
Open files: 0 total (local), 0 open on server
TreeConnects: 1 total 0 failed
Reads: 10 total 0 failed
Writes: 8 total 0 failed
3) \\nas\backup2
SMBs: 7
Bytes read: 1  Bytes written: 2
`

func TestParseCIFS(t *testing.T) {
	got, err := parseCIFS([]byte(cifsStats), "//nas/backup")
	require.NoError(t, err)
	require.Equal(t, traffic{502092, 31457286, 214}, got)
	got, err = parseCIFS([]byte(cifsStats), "//nas/backup2")
	require.NoError(t, err)
	require.Equal(t, traffic{1, 2, 7}, got)
	_, err = parseCIFS([]byte(cifsStats), "//nas/back")
	require.ErrorIs(t, err, errNotCounted)
}

const nfsStats = `device proc mounted on /proc with fstype proc
device nas:/other mounted on /mnt/other with fstype nfs4 statvers=1.1
	bytes:	1 2 3 4 5 6 7 8
device nas:/backup mounted on /mnt/backup with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.2,rsize=1048576
	age:	120
	events:	1 2 3
	bytes:	16777216 0 16777216 8192 33554432 16384 8192 0
	RPC iostats version: 1.1  p/v: 100003/4 (nfs)
device nas:/backup2 mounted on /mnt/backup2 with fstype nfs4 statvers=1.1
	bytes:	1 2
`

func TestParseNFS(t *testing.T) {
	got, err := parseNFS([]byte(nfsStats), "nas:/backup")
	require.NoError(t, err)
	require.Equal(t, traffic{read: 33554432, written: 16384}, got)
	for _, missing := range []string{"nas:/backup2", "nas:/back", "proc"} {
		_, err = parseNFS([]byte(nfsStats), missing)
		require.ErrorIs(t, err, errNotCounted, missing)
	}
}

func TestMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now traffic
		closed := false
		j, err := newMountDetector(func() (traffic, error) { return now, nil }, func() { closed = true })
		require.NoError(t, err)
		m := iopolicy.Moment{}
		foreign := func(after time.Duration) bool {
			wait(after)
			m.At = time.Now()
			return !j.Look(m).Newest[0].IsZero()
		}
		m.Begun++
		require.False(t, foreign(50*ms))
		now.read += 4096
		require.False(t, foreign(50*ms), "it may be read-ahead: nothing has stood still yet")
		require.False(t, foreign(50*ms))
		now.ops++
		require.False(t, foreign(50*ms), "the kernel closes a file a second after we have")
		now.read += 4096
		require.True(t, foreign(50*ms), "in a gap")
		m.Begun++
		m.Moved.Read += 64 << 20
		now.read += 80 << 20
		require.False(t, foreign(50*ms), "read-ahead reads more than was asked for")
		now.read += 10 << 20
		require.True(t, foreign(50*ms), "but not that much")
		m.Begun++
		require.False(t, foreign(50*ms))
		now = traffic{} // reset, or mounted again
		require.False(t, foreign(50*ms))
		require.False(t, foreign(50*ms))
		now.written = 512
		require.True(t, foreign(50*ms))
		mode, why := j.Mode()
		require.Equal(t, diskwatch.Gaps, mode)
		require.Contains(t, why, "Other clients")
		j.Close()
		require.True(t, closed)
	})
}

// tree writes files of a test.
func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		if !strings.HasSuffix(name, "/") {
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
		}
	}
	return root
}

func TestIdle(t *testing.T) {
	now := time.Now()
	tests := map[string]struct {
		sessions map[string]string
		idle     bool
	}{
		"no user is logged in":  {nil, false},
		"a greeter waits":       {map[string]string{"c1": "CLASS=greeter\nTYPE=wayland\n"}, true},
		"a desktop":             {map[string]string{"2": "UID=1000\nCLASS=user\nTYPE=wayland\nSTATE=active\n"}, false},
		"a terminal in use":     {map[string]string{"2": "CLASS=user\nTYPE=tty\nTTY=pts/0\nSTATE=active\n"}, false},
		"a terminal left alone": {map[string]string{"2": "CLASS=user\nTYPE=tty\nTTY=pts/1\nSTATE=active\n"}, true},
		"one of two": {map[string]string{"2": "CLASS=user\nTYPE=tty\nTTY=pts/1\n",
			"3": "CLASS=user\nTYPE=tty\nTTY=pts/0\n"}, false},
		"a terminal that is not": {map[string]string{"2": "CLASS=user\nTYPE=tty\nTTY=pts/9\n"}, false},
		"cron":                   {map[string]string{"2": "CLASS=user\nTYPE=unspecified\n"}, false},
		"has logged out": {map[string]string{"2": "CLASS=user\nTYPE=x11\nSTATE=closing\n", "c1": "CLASS=greeter\n"},
			true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{"dev/pts/0": "", "dev/pts/1": "", "sessions/": ""})
			require.NoError(t, os.Chtimes(filepath.Join(root, "dev/pts/0"), now, now))
			require.NoError(t, os.Chtimes(filepath.Join(root, "dev/pts/1"), now.Add(-time.Hour), now))
			for id, text := range tt.sessions {
				require.NoError(t, os.WriteFile(filepath.Join(root, "sessions", id), []byte(text), 0o600))
			}
			idle := idleBy(filepath.Join(root, "sessions"), filepath.Join(root, "dev"))
			require.Equal(t, tt.idle, idle())
			require.Equal(t, tt.idle, idle())
		})
	}
	require.Nil(t, idleBy(filepath.Join(t.TempDir(), "sessions"), "/dev"))
}

func TestStatisticsThatAreOff(t *testing.T) {
	root := tree(t, map[string]string{"sdx/stat": "1 2 3 4 5 6 7 8 9 10 11\n", "sdx/queue/iostats": "0\n",
		"sdy/stat": "nonsense"})
	for name, says := range map[string]string{"sdx": "iostats", "sdy": "not the statistics", "sdz": "no such file"} {
		w := Watch(device.Info{Medium: device.HDD, Leaves: []device.Leaf{{Sysfs: filepath.Join(root, name)}}}, Options{})
		mode, why := w.Mode()
		require.Equal(t, diskwatch.Blind, mode)
		require.Contains(t, why, says)
		require.Equal(t, 20*ms, w.Interval())
		w.Close()
	}
}

func TestAnotherProcessReadsForThisOne(t *testing.T) {
	disk := tree(t, map[string]string{"stat": "1 2 3 4 5 6 7 8 9 10 11\n"})
	w := Watch(device.Info{Medium: device.SSD, FS: "fuseblk", Indirect: true, Leaves: []device.Leaf{{Sysfs: disk}}},
		Options{})
	defer w.Close()
	mode, why := w.Mode()
	require.Equal(t, diskwatch.Gaps, mode)
	require.Contains(t, why, "only in gaps")
	every, length := w.NeedsGaps()
	require.Equal(t, 200*ms, every)
	require.Equal(t, 5*ms, length)
}
