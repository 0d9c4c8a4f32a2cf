package diskwatch

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const ms = time.Millisecond

// fake is a disk, a process and a gate. A test sets their counters.
type fake struct {
	disk Counters
	self Process
	err  error
	m    iopolicy.Moment
	w    *Watcher
}

func (f *fake) Counters() (Counters, error) { return f.disk, f.err }

func watch(t *testing.T) *fake {
	t.Helper()
	f := &fake{disk: Counters{Read: 1 << 30, Written: 1 << 30}, m: iopolicy.Moment{At: time.Unix(1000, 0)}}
	var err error
	f.w, err = newWatcher(f, func() Process { return f.self }, f.m.At)
	require.NoError(t, err)
	return f
}

// poll returns whether foreign I/O was seen.
func (f *fake) poll(after time.Duration) (iopolicy.Sighting, bool) {
	f.m.At = f.m.At.Add(after)
	s := f.w.Look(f.m)
	return s, !s.Newest[0].IsZero() || s.Inflight[0]
}

// operation is one own operation, with a poll while it is in flight.
func (f *fake) operation(t *testing.T, change func()) {
	t.Helper()
	f.m.Begun++
	f.m.Inflight++
	_, seen := f.poll(5 * ms)
	require.False(t, seen)
	change()
	f.m.Inflight--
}

func TestOwnReadsAreNotForeign(t *testing.T) {
	f := watch(t)
	f.operation(t, func() { f.self.Read, f.disk.Inflight = 1<<20, 8 })
	_, seen := f.poll(5 * ms)
	require.False(t, seen, "submitted")
	f.disk.Read, f.disk.Inflight = f.disk.Read+(1<<20), 0
	f.disk.Reads += 8
	s, seen := f.poll(5 * ms)
	require.False(t, seen, "complete")
	require.Equal(t, 5*ms, s.Gap)
}

func TestForeignReads(t *testing.T) {
	f := watch(t)
	f.operation(t, func() { f.self.Read += 4096; f.disk.Read += 8192 })
	_, seen := f.poll(5 * ms)
	require.True(t, seen, "beside an own read")
	_, seen = f.poll(5 * ms)
	require.False(t, seen, "once")
	f.disk.Read += 4096
	f.disk.Reads++
	s, seen := f.poll(10 * ms)
	require.True(t, seen, "in a gap")
	require.Equal(t, 10*ms, s.Gap)
	require.EqualValues(t, 1, s.IOs)
	f.disk.Inflight = 1
	s, _ = f.poll(5 * ms)
	require.True(t, s.Inflight[0])
}

func TestReadsFromAnotherDevice(t *testing.T) {
	f := watch(t)
	f.operation(t, func() { f.self.Read += 1 << 20 }) // these bytes never arrive at this disk
	for range 3 {
		_, seen := f.poll(5 * ms)
		require.False(t, seen)
	}
	f.operation(t, func() { f.disk.Read += 4096 })
	_, seen := f.poll(5 * ms)
	require.True(t, seen, "a gap with an idle disk proves that nothing is missing")
}

func TestWrites(t *testing.T) {
	f := watch(t)
	f.disk.Written += 4096
	_, seen := f.poll(5 * ms)
	require.True(t, seen, "this process has not written")
	f.operation(t, func() { f.self.Dirtied += 8 << 20; f.m.Wrote++ })
	_, seen = f.poll(5 * ms)
	require.False(t, seen)
	f.disk.Written += 8<<20 + 64<<10 // with metadata
	f.disk.Flushes += 2
	_, seen = f.poll(time.Second)
	require.False(t, seen, "own pages are written late")
	f.disk.Written += 2 << 20
	_, seen = f.poll(5 * ms)
	require.True(t, seen, "more than a commit")
	_, seen = f.poll(time.Minute)
	require.False(t, seen)
	f.disk.Flushes++
	_, seen = f.poll(5 * ms)
	require.True(t, seen, "nothing of this process is dirty any more")
}

func TestDiskThatGoesAway(t *testing.T) {
	f := watch(t)
	f.err = errors.New("no such device")
	_, seen := f.poll(5 * ms)
	require.False(t, seen)
	require.ErrorIs(t, f.w.Err(), f.err)
	f.err = nil
	f.disk.Read += 4096
	_, seen = f.poll(5 * ms)
	require.False(t, seen)
	f.w.Close()
}

func TestDiskThatIsReplaced(t *testing.T) {
	f := watch(t)
	f.disk = Counters{Read: 512}
	_, seen := f.poll(5 * ms)
	require.False(t, seen)
	f.disk.Read += 512
	_, seen = f.poll(5 * ms)
	require.True(t, seen)
}

func TestStatFile(t *testing.T) {
	var c Counters
	const line = "    5046      123   412345     1234     6789      321   987654     5678        3     4321     6912    " +
		"    7        0      800        1       42       11\n"
	require.NoError(t, c.add([]byte(line)))
	require.Equal(t, Counters{412345 * 512, 987654 * 512, 5046, 6789, 42, 3, 4321 * ms, 6912 * ms}, c)
	require.NoError(t, c.add([]byte("1 2 3 4 5 6 7 8 9 10 11\n")), "Linux before 4.18")
	require.Equal(t, Counters{412348 * 512, 987661 * 512, 5047, 6794, 42, 12, 4331 * ms, 6924 * ms}, c)
	for _, bad := range []string{"", "1 2 3\n", "sda 1 2 3 4 5 6 7 8 9 10 11 12"} {
		require.Error(t, c.add([]byte(bad)), "%q", bad)
	}
}
