package human

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSize(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		want string
	}{
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.00 KiB"},
		{1536, "1.50 KiB"},
		{1<<20 - 6, "1023.99 KiB"},
		{1<<20 - 5, "1.00 MiB"}, // 1023.995 KiB would be 1024.00
		{1<<20 - 1, "1.00 MiB"},
		{1 << 20, "1.00 MiB"},
		{1<<30 - 1, "1.00 GiB"},
		{438 << 30, "438.00 GiB"},
		{1 << 40, "1.00 TiB"},
		{1 << 50, "1.00 PiB"},
		{1 << 60, "1.00 EiB"},
		{math.MaxUint64, "16.00 EiB"},
	} {
		require.Equal(t, c.want, Size(c.n), "%d", c.n)
	}
}

func TestSizeNeverShows1024(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		n := uint64(1)<<(10*(1+r.IntN(6))) + r.Uint64N(64) - 32
		if r.IntN(2) == 0 {
			n = r.Uint64() >> r.IntN(64)
		}
		number, _ := SizeParts(n)
		v, err := strconv.ParseFloat(number, 64)
		require.NoError(t, err)
		require.Less(t, v, 1024.0, "%d is %s", n, Size(n))
	}
}

func TestRate(t *testing.T) {
	require.Equal(t, "50.00 MiB/s", Rate(100<<20, 2*time.Second))
	require.Equal(t, "n/a", Rate(100, 0))
	require.Equal(t, "n/a", Rate(100, -time.Second))
	require.Equal(t, "0 B/s", Rate(0, time.Second))
	require.Equal(t, "1.00 KiB/s", Rate(1, 976563*time.Nanosecond))
	require.Equal(t, "n/a", Rate(math.MaxUint64, time.Nanosecond))
	require.Equal(t, "0 B/s", Speed(-1))
	require.Equal(t, "1.50 KiB/s", Speed(1536))
}

func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1,000", 27842153: "27,842,153", 999999: "999,999", 1000000: "1,000,000",
		math.MaxUint64: "18,446,744,073,709,551,615",
	} {
		require.Equal(t, want, Count(n))
	}
}

func TestClocked(t *testing.T) {
	require.Equal(t, "00:00:00", Clocked(999*time.Millisecond))
	require.Equal(t, "24:56:03", Clocked(24*time.Hour+56*time.Minute+3*time.Second))
	require.Equal(t, "123:00:00", Clocked(123*time.Hour))
	require.Equal(t, "00:00:00", Clocked(-time.Second))
}

func TestAbout(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "5 s"},
		{5 * time.Second, "5 s"},
		{5*time.Second + 1, "10 s"},
		{55 * time.Second, "55 s"},
		{56 * time.Second, "1 min"},
		{60 * time.Second, "1 min"},
		{61 * time.Second, "2 min"},
		{59 * time.Minute, "59 min"},
		{59*time.Minute + 1, "1 h 00 min"},
		{2*time.Hour + 31*time.Minute, "2 h 35 min"},
		{23*time.Hour + 55*time.Minute, "23 h 55 min"},
		{23*time.Hour + 56*time.Minute, "1 d 0 h"},
		{76 * time.Hour, "3 d 4 h"},
	} {
		require.Equal(t, c.want, About(c.d), "%v", c.d)
	}
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "under 1 ms"}, {999 * time.Microsecond, "under 1 ms"}, {49_999 * time.Microsecond, "49 ms"},
		{50 * time.Millisecond, "0.1 s"},
		{440 * time.Millisecond, "0.4 s"},
		{9949 * time.Millisecond, "9.9 s"},
		{9950 * time.Millisecond, "10 s"},
		{37400 * time.Millisecond, "37 s"},
		{119499 * time.Millisecond, "119 s"},
		{119500 * time.Millisecond, "2 min 00 s"},
		{12*time.Minute + 5*time.Second, "12 min 05 s"},
		{2*time.Hour - 501*time.Millisecond, "119 min 59 s"},
		{2*time.Hour - 500*time.Millisecond, "2 h 00 min"},
		{3*time.Hour + 20*time.Minute + 29*time.Second, "3 h 20 min"},
	} {
		require.Equal(t, c.want, Span(c.d), "%v", c.d)
	}
}

func TestTimeMachineUnits(t *testing.T) {
	require.Equal(t, "72.32 MB/s", Megabytes(72.32e6))
	require.Equal(t, "323.87 items/s", Items(323.87))
	require.Equal(t, "5,757.00 items/s", Items(5757))
	require.Equal(t, "10.00", Grouped(9.999))
	require.Equal(t, "0.00", Grouped(math.Inf(-1)))
}

func TestPercent(t *testing.T) {
	require.Equal(t, "99.9 %", Percent(0.99999))
	require.Equal(t, "100.0 %", Percent(1))
	require.Equal(t, "0.0 %", Percent(0))
}

func TestPercentagesAddUp(t *testing.T) {
	require.Equal(t, []string{"33.4", "33.3", "33.3"}, Percentages([]float64{1, 1, 1}))
	require.Equal(t, []string{"0.0", "0.0"}, Percentages([]float64{0, 0}))
	require.Empty(t, Percentages(nil))
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		shares := make([]float64, 1+r.IntN(20))
		for i := range shares {
			shares[i] = math.Exp(r.Float64() * 30)
		}
		sum := 0
		for _, p := range Percentages(shares) {
			tenths, err := strconv.Atoi(strings.Replace(p, ".", "", 1))
			require.NoError(t, err)
			sum += tenths
		}
		require.Equal(t, 1000, sum, "%v", shares)
	}
}

func TestPlural(t *testing.T) {
	require.Equal(t, "1 failure", Plural(1, "failure"))
	require.Equal(t, "0 failures", Plural(0, "failure"))
	require.Equal(t, "2,000 failures", Plural(2000, "failure"))
}
