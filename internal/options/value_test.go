package options

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7 * kib, "7b": 7, "1k": kib, "1K": kib, "1KB": kib, "1KiB": kib, "3M": 3 * mib, "10G": 10 * gib,
		"2TiB": 2 << 40, "1.5G": gib + gib/2, "0.5K": 512, "10 M": 10 * mib, "8388607T": 8388607 << 40,
	} {
		n, err := ParseSize(text, kib)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "K", "-1", "1e3", "1X", "1KK", "0x10", "1.2.3", "8388608T", "99999999999999999999",
		"+5", "1G1", "9999999.5T"} {
		_, err := ParseSize(text, 1)
		require.ErrorIs(t, err, ErrValue, text)
	}
	for _, n := range []int64{0, 1, 1023, kib, kib + 1, 3 * mib, gib, 5 << 40, math.MaxInt64} {
		back, err := ParseSize(FormatSize(n), 1)
		require.NoError(t, err)
		require.Equal(t, n, back)
	}
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"10G", "1.5 KiB", "9223372036854775807", "", "..", "1b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSize(text, mib)
		if err != nil {
			require.ErrorIs(t, err, ErrValue)
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		back, err := ParseSize(FormatSize(n), 1)
		require.NoError(t, err)
		require.Equal(t, n, back)
	})
}

func TestDurations(t *testing.T) {
	kind := Option{Kind: Duration}
	for text, want := range map[string]time.Duration{"90": 90 * time.Second, "5m": 5 * time.Minute, "0": 0,
		"1.5h": 90 * time.Minute} {
		d, err := kind.parse(text)
		require.NoError(t, err)
		require.Equal(t, want, d)
		back, err := kind.parse(kind.format(want))
		require.NoError(t, err)
		require.Equal(t, want, back)
	}
	require.Equal(t, "5m", kind.format(5*time.Minute))
	require.Equal(t, "2h", kind.format(2*time.Hour))
	require.Equal(t, "10s", kind.format(10*time.Second))
	require.Equal(t, "10m", kind.format(10*time.Minute))
	for _, text := range []string{"-1", "-1s", "x", "9223372037"} {
		_, err := kind.parse(text)
		require.ErrorIs(t, err, ErrValue, text)
	}
}

func TestDial(t *testing.T) {
	require.Equal(t, Workers{1, 1, 1, 1}, WorkersFor(1, 8, Media{}))
	require.Equal(t, Workers{2, 2, 2, 2}, WorkersFor(5, 8, Media{}))
	require.Equal(t, Workers{4, 4, 4, 4}, WorkersFor(10, 8, Media{}))
	require.Equal(t, Workers{4, 4, 1, 4}, WorkersFor(10, 1, Media{}))
	require.Equal(t, Workers{8, 16, 12, 4}, WorkersFor(0, 12, Media{}))
	require.Equal(t, Workers{8, 8, 1, 2}, WorkersFor(0, 0, Media{}))
	require.Equal(t, WorkersFor(10, 4, Media{}), WorkersFor(99, 4, Media{}))
	require.Equal(t, WorkersFor(0, 4, Media{}), WorkersFor(-1, 4, Media{}))
	for value := 2; value <= 10; value++ {
		less, more := WorkersFor(value-1, 64, Media{}), WorkersFor(value, 64, Media{})
		require.GreaterOrEqual(t, more.Scanners, less.Scanners)
		require.GreaterOrEqual(t, more.Readers, less.Readers)
		require.GreaterOrEqual(t, more.Uploads, less.Uploads)
	}
	for value, row := range dialRows() {
		if value != 1 { // there one session does both
			require.LessOrEqual(t, row.producers+row.consumers, row.ibmSessions, value)
		}
	}
	m := machine{args: []string{"--resource-utilization=3", "--readers=9", "--compressors=auto"}}
	require.Equal(t, Workers{1, 9, 2, 2}, m.spec(t).Parallel(4, Media{}).Workers)
	require.Equal(t, Workers{Readers: 9}, m.spec(t).Parallel(4, Media{}).Named)
}

func TestDialByMedia(t *testing.T) {
	for _, c := range []struct {
		cpu            int
		source, target device.Medium
		want           Workers
	}{
		{1, device.HDD, device.Unknown, Workers{2, 1, 1, 2}},
		{16, device.HDD, device.Unknown, Workers{2, 1, 16, 4}},
		{16, device.HDD, device.HDD, Workers{2, 1, 16, 1}},
		{16, device.SSD, device.HDD, Workers{8, 16, 16, 1}},
		{2, device.HDD, device.Remote, Workers{2, 1, 2, 4}},
		{2, device.Remote, device.SSD, Workers{8, 8, 2, 2}},
		{6, device.Remote, device.Remote, Workers{12, 8, 6, 4}},
		{32, device.Remote, device.HDD, Workers{16, 8, 32, 1}},
	} {
		require.Equal(t, c.want, WorkersFor(0, c.cpu, Media{c.source, c.target}), "%+v", c)
	}
	media := []device.Medium{device.Unknown, device.Memory, device.SSD, device.Remote, device.HDD}
	for _, source := range media {
		for _, target := range media {
			for value := 1; value <= 10; value++ {
				require.Equal(t, WorkersFor(value, 4, Media{}), WorkersFor(value, 4, Media{source, target}), "a number is a number")
			}
		}
	}
	for _, fast := range media[:3] {
		require.Equal(t, WorkersFor(0, 4, Media{}), WorkersFor(0, 4, Media{fast, fast}))
	}
	m := machine{args: []string{"--readers=5"}}
	require.Equal(t, Workers{2, 5, 4, 1}, m.spec(t).Parallel(4, Media{device.HDD, device.HDD}).Workers)
}
