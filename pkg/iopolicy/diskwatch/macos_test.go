package diskwatch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// registry is the I/O registry of a Mac: what it answers, and how long that takes.
type registry struct {
	disks map[string]ioStat
	err   error
	takes time.Duration
	now   time.Time
}

func (r *registry) read() (map[string]ioStat, error) {
	r.now = r.now.Add(r.takes)
	return r.disks, r.err
}

func newRegistry() *registry {
	return &registry{now: time.Unix(1000, 0), takes: 80 * time.Microsecond, disks: map[string]ioStat{
		"disk0": {1 << 30, 2 << 30, 1000, 2000, 5 * time.Second}, "disk4": {512, 1024, 1, 2, 3 * ms},
	}}
}

func (r *registry) open(t *testing.T, names ...string) *ioDisks {
	t.Helper()
	d, err := openIODisks(r.read, func() time.Time { return r.now }, names...)
	require.NoError(t, err)
	return d
}

func TestSumsOfDisksOfMacOS(t *testing.T) {
	r := newRegistry()
	sum, err := r.open(t, "disk0", "disk4").Counters()
	require.NoError(t, err)
	require.Equal(t, Counters{Read: 1<<30 + 512, Written: 2<<30 + 1024, Reads: 1001, Writes: 2002,
		Busy: 5003 * ms, Waited: 5003 * ms}, sum)
	_, err = openIODisks(r.read, time.Now)
	require.ErrorIs(t, err, ErrNoDisk)
	_, err = openIODisks(r.read, time.Now, "disk9")
	require.ErrorIs(t, err, ErrNoDisk)
	r.err = errors.New("IOServiceGetMatchingServices error=3")
	_, err = openIODisks(r.read, time.Now, "disk0")
	require.ErrorIs(t, err, r.err)
}

// TestPollsOfMacOSTakeAHundredthOfAProcessor at most, whatever one costs.
func TestPollsOfMacOSTakeAHundredthOfAProcessor(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{
		0: 5 * ms, 20 * time.Microsecond: 5 * ms, 50 * time.Microsecond: 5 * ms,
		80 * time.Microsecond: 8 * ms, 3 * ms: 300 * ms,
	} {
		r := newRegistry()
		r.takes = takes
		require.Equal(t, want, r.open(t, "disk0").Pace(5*ms), takes)
	}
}

// TestInFlightIsAssumedWhereIOEnded: the drivers do not count requests in flight.
func TestInFlightIsAssumedWhereIOEnded(t *testing.T) {
	r := newRegistry()
	d := r.open(t, "disk0")
	for _, one := range []struct {
		ended    uint64
		inflight int
	}{{0, 0}, {1, 1}, {0, 0}, {7, 1}, {3, 1}, {0, 0}} {
		stat := r.disks["disk0"]
		stat.reads += one.ended
		r.disks["disk0"] = stat
		sum, err := d.Counters()
		require.NoError(t, err)
		require.Equal(t, one.inflight, sum.Inflight)
	}
}

// macDisks are disks of macOS and the process of a fake as a source.
type macDisks struct {
	*ioDisks
	*fake
}

func (m macDisks) Counters() (Counters, error) { return m.ioDisks.Counters() }
func (m macDisks) self() Process               { return m.Process }
func (macDisks) cancelled() uint64             { return 0 }
func (macDisks) Close()                        {}

// onMac lets do watch a disk of macOS.
func onMac(t *testing.T, do func(s *scene, r *registry)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		s := &scene{t: t, fake: &fake{}}
		var err error
		s.w, err = newWatcher(macDisks{r.open(t, "disk0"), s.fake}, Options{FS: "apfs", Interval: 8 * ms}, 1)
		require.NoError(t, err)
		do(s, r)
	})
}

// ended adds I/O to the disk.
func (r *registry) ended(read, written uint64, ios uint64) {
	s := r.disks["disk0"]
	s.read, s.written, s.reads = s.read+read, s.written+written, s.reads+ios
	r.disks["disk0"] = s
}

// TestOwnReadAheadIsNotForeignOnMacOS: the kernel reads ahead, so own reads may end after the operation has.
func TestOwnReadAheadIsNotForeignOnMacOS(t *testing.T) {
	onMac(t, func(s *scene, r *registry) {
		for range 20 {
			s.begin(iopolicy.Read)
			require.False(t, s.foreign(8*ms))
			s.Process.Read += 1 << 20
			r.ended(256<<10, 0, 2)
			s.end(iopolicy.Read)
			require.False(t, s.foreign(8*ms), "the rest is on its way")
			r.ended(768<<10, 0, 6)
			require.False(t, s.foreign(8*ms), "all has arrived")
			require.False(t, s.foreign(8*ms))
		}
	})
}

func TestForeignIOIsSeenOnMacOS(t *testing.T) {
	onMac(t, func(s *scene, r *registry) {
		r.ended(4096, 0, 1)
		seen := s.poll(8 * ms)
		require.Equal(t, s.m.At, seen.Newest[0])
		require.EqualValues(t, 1, seen.IOs)
		s.begin(iopolicy.Read)
		require.False(t, s.foreign(8*ms))
		s.Process.Read += 4096
		r.ended(12<<10, 0, 3)
		s.end(iopolicy.Read)
		require.True(t, s.foreign(8*ms), "more than this process asked for")
		r.ended(0, 64<<10, 1)
		require.True(t, s.foreign(8*ms), "a write, and this process has written nothing")
		require.False(t, s.foreign(8*ms))
	})
}

func TestDiskOfMacOSThatComesAndGoes(t *testing.T) {
	onMac(t, func(s *scene, r *registry) {
		was := r.disks["disk0"]
		r.disks["disk0"] = ioStat{read: 4096, reads: 1} // another disk under the name: the counters run backwards
		require.False(t, s.foreign(8*ms))
		r.ended(4096, 0, 1)
		require.True(t, s.foreign(8*ms))
		delete(r.disks, "disk0")
		require.False(t, s.foreign(8*ms))
		require.ErrorIs(t, s.w.Err(), ErrNoDisk)
		r.disks["disk0"] = was
		require.False(t, s.foreign(8*ms), "a disk that went is watched again by a new watch only")
	})
}

// TestRusageHasTheLayoutOfTheHeader: struct rusage_info_v2 of sys/resource.h (xnu-8796, bsd/sys/resource.h 242 to 262)
// has 16 bytes and 18 numbers. The last two are wanted.
func TestRusageHasTheLayoutOfTheHeader(t *testing.T) {
	require.EqualValues(t, 160, unsafe.Sizeof(rusageInfo{}))
	require.EqualValues(t, 144, unsafe.Offsetof(rusageInfo{}.read))
	require.EqualValues(t, 152, unsafe.Offsetof(rusageInfo{}.written))
}

// diskutil answers from testdata/diskutil.
func diskutil(device string) ([]byte, error) {
	return os.ReadFile(filepath.Join("testdata", "diskutil", device+".plist"))
}

func TestStoresOfMacOS(t *testing.T) {
	for device, want := range map[string][]Store{
		"disk3s5": {{Name: "disk0", Solid: true}},                  // the data volume of an Apple silicon Mac
		"disk0s2": {{Name: "disk0", Solid: true}},                  // its physical store
		"disk4s1": {{Name: "disk4"}},                               // exFAT on a USB disk
		"disk5s1": {{Name: "disk5", Image: true}},                  // a disk image
		"disk7s1": {{Name: "disk0", Solid: true}, {Name: "disk6"}}, // a Fusion drive
	} {
		got, err := storesBelow(device, diskutil)
		require.NoError(t, err, device)
		require.Equal(t, want, got, device)
	}
	_, err := storesBelow("disk9", diskutil)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, bad := range []string{"", "not a list", "<plist><dict><key>a</key>", "<plist><array/></plist>",
		"<plist><dict></dict></plist>", "<plist><dict><key>APFSPhysicalStores</key><array><dict/></array></dict></plist>",
		"<plist><dict><key>APFSPhysicalStores</key><array><string>disk0</string></array></dict></plist>"} {
		_, err := storesBelow("disk9", func(string) ([]byte, error) { return []byte(bad), nil })
		require.Error(t, err, "%q", bad)
	}
	// A container that names itself does not lead in a circle.
	_, err = storesBelow("disk9", func(device string) ([]byte, error) {
		return fmt.Appendf(nil, "<plist><dict><key>APFSPhysicalStores</key><array><dict><key>APFSPhysicalStore</key>"+
			"<string>%s</string></dict></array></dict></plist>", device), nil
	})
	require.Error(t, err)
	require.Equal(t, "disk3s5", deviceOf("/dev/disk3s5"))
	require.Equal(t, "disk3s5", deviceOf("com.apple.TimeMachine.2026-11-28.local@/dev/disk3s5"), "a snapshot")
	for _, none := range []string{"//user@nas/share", "nas:/export", "devfs", "map auto_home", "/dev/null"} {
		require.Empty(t, deviceOf(none))
	}
}

// TestOperationsStandForBytes where the kernel refuses the bytes, as to a program in a sandbox.
func TestOperationsStandForBytes(t *testing.T) {
	bytes := func(err error) func() (iopolicy.Bytes, error) {
		return func() (iopolicy.Bytes, error) { return iopolicy.Bytes{Read: 7, Written: 9}, err }
	}
	operations := func(err error) func() (in, out int64, _ error) {
		return func() (in, out int64, _ error) { return 3, 1, err }
	}
	require.Equal(t, iopolicy.Bytes{Read: 7, Written: 9}, submitted(bytes(nil), operations(nil)))
	for _, refused := range []error{syscall.EPERM, syscall.EINVAL, syscall.ESRCH} {
		require.Equal(t, iopolicy.Bytes{Read: 12288, Written: 4096}, submitted(bytes(refused), operations(nil)))
		require.Zero(t, submitted(bytes(refused), operations(syscall.EINVAL)))
	}
}
