package chunker

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"
)

// small keeps tests quick: the algorithm does not know absolute sizes.
func small() Params { return Params{Min: 256, Avg: 1024, Max: 4096} }

func random(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}

func build(t testing.TB, key byte, p Params) *Chunker {
	t.Helper()
	c, err := New([32]byte{key}, p)
	require.NoError(t, err)
	return c
}

// ends returns the offsets behind each chunk of data.
func ends(c *Chunker, data []byte) []int {
	var out []int
	for at := 0; at < len(data); {
		at += c.Next(data[at:], true)
		out = append(out, at)
	}
	return out
}

// reference is the definition in SPEC.md, word for word and slow.
func reference(c *Chunker, p Params, data []byte) []int {
	var out []int
	for start := 0; start < len(data); {
		rest := data[start:]
		n := min(len(rest), int(p.Max))
		for length := int(p.Min); length < n; length++ {
			var hash uint64
			for k := range Window {
				hash += c.gear[rest[length-1-k]] << k
			}
			divisor := 4 * uint64(p.Avg)
			if uint64(length) >= p.normal() {
				divisor = uint64(p.Avg) / 4
			}
			limit, _ := bits.Div64(1, 0, divisor)
			if hash < limit {
				n = length
			}
		}
		start += n
		out = append(out, start)
	}
	return out
}

func TestCutsFollowTheSpecification(t *testing.T) {
	for seed, p := range []Params{small(), {64, 128, 256}, {64, 1000, 2001}, {100, 201, 64 << 10}, {333, 777, 1555}} {
		c := build(t, byte(seed), p)
		data := random(uint64(seed), 100_000)
		require.Equal(t, reference(c, p, data), ends(c, data), "%+v", p)
	}
}

func TestCutsDoNotDependOnHowBytesAreFed(t *testing.T) {
	c := build(t, 1, small())
	data := random(2, 200_000)
	want := ends(c, data)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		var got []int
		for at, have := 0, 0; at < len(data); {
			n := c.Next(data[at:have], have == len(data))
			if n == 0 {
				require.Less(t, have-at, c.Max(), "Max bytes always suffice")
				have = min(len(data), have+1+r.IntN(3000))
				continue
			}
			at += n
			got = append(got, at)
		}
		require.Equal(t, want, got)
	}
}

func TestNextAtTheEdges(t *testing.T) {
	c, p := build(t, 1, small()), small()
	data := random(9, int(p.Max))
	require.Equal(t, 0, c.Next(nil, false))
	require.Equal(t, 0, c.Next(nil, true))
	require.Equal(t, 1, c.Next(data[:1], true))
	require.Equal(t, 0, c.Next(data[:p.Min-1], false))
	require.Equal(t, int(p.Min)-1, c.Next(data[:p.Min-1], true))

	never := uncut(c, p)
	require.Equal(t, 0, c.Next(never[:p.Max-1], false))
	require.Equal(t, int(p.Max)-1, c.Next(never[:p.Max-1], true))
	require.Equal(t, int(p.Max), c.Next(never[:p.Max], false))
	require.Equal(t, int(p.Max), c.Next(never, false))
}

// uncut returns more than Max bytes without a content-defined cut: one repeated byte with a high enough sum.
func uncut(c *Chunker, p Params) []byte {
	run := make([]byte, p.Max+100)
	for b := range 256 {
		if -c.gear[b] >= c.easy { // sum of gear<<k over 64 k is -gear
			for i := range run {
				run[i] = byte(b)
			}
			return run
		}
	}
	return nil
}

func TestCutsComeBackAfterAnInsertion(t *testing.T) {
	c := build(t, 1, small())
	data := random(3, 400_000)
	want := ends(c, data)
	for _, n := range []int{1, 7, 64, 1000, 5000} {
		got := ends(c, append(random(4, n), data...))
		for i := range got {
			got[i] -= n
		}
		first := slices.IndexFunc(got,
			func(cut int) bool { _, found := slices.BinarySearch(want, cut); return found && cut > 0 })
		require.GreaterOrEqual(t, first, 0)
		require.Less(t, got[first], 40*1024, "cuts meet again within some chunks after %d bytes", n)
		at, _ := slices.BinarySearch(want, got[first])
		require.Equal(t, want[at:], got[first:], "and stay together")
	}
}

func TestDistribution(t *testing.T) {
	for _, p := range []Params{DefaultParams(), small(), {512, 1024, 4096}, {128, 1024, 8192}} {
		c := build(t, 5, p)
		data := random(6, int(p.Avg)*1000)
		cuts := ends(c, data)
		forced, last := 0, 0
		for _, cut := range cuts[:len(cuts)-1] {
			require.GreaterOrEqual(t, cut-last, int(p.Min))
			require.LessOrEqual(t, cut-last, int(p.Max))
			if cut-last == int(p.Max) {
				forced++
			}
			last = cut
		}
		require.InEpsilon(t, float64(p.Avg), float64(len(data))/float64(len(cuts)), 0.03, "%+v", p)
		require.Less(t, forced, len(cuts)/200, "%+v", p)
	}
}

func TestOneByteRepeatedGivesEqualChunks(t *testing.T) {
	p := small()
	for key := range byte(50) {
		c := build(t, key, p)
		cuts := ends(c, make([]byte, 64<<10))
		for i, cut := range cuts[:len(cuts)-1] {
			require.Equal(t, cuts[0]*(i+1), cut)
		}
	}
}

func TestKeysDecideAboutCuts(t *testing.T) {
	data := random(7, 1<<20)
	first, second := ends(build(t, 1, small()), data), ends(build(t, 2, small()), data)
	common := 0
	for _, cut := range first {
		if _, found := slices.BinarySearch(second, cut); found {
			common++
		}
	}
	require.Less(t, common, 10, "about one cut in 1024 coincides by chance")
	require.Equal(t, first, ends(build(t, 1, small()), data))
}

func TestParams(t *testing.T) {
	for _, p := range []Params{
		DefaultParams(), {64, 128, 256}, {64, 32 << 20, 64 << 20}, {16 << 20, 32 << 20, 64 << 20},
	} {
		require.NoError(t, p.Validate(), "%+v", p)
	}
	const top = 1<<32 - 1
	for _, p := range []Params{
		{}, {63, 128, 256}, {64, 127, 256}, {64, 128, 255}, {64, 128, 64<<20 + 1}, {64, 0, 256}, {top, top, top},
		{1 << 31, 0, 64 << 20}, {1 << 31, 64, 128}, {64, top, top}, {64, 1 << 31, 0},
	} {
		require.ErrorIs(t, p.Validate(), ErrParams, "%+v", p)
		_, err := New([32]byte{}, p)
		require.ErrorIs(t, err, ErrParams, "%+v", p)
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	c := build(t, 1, small())
	data := random(8, 100_000)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for at := 0; at < len(data); {
			at += c.Next(data[at:], true)
		}
	}))
}

func TestConcurrentUse(t *testing.T) {
	c := build(t, 1, small())
	data := random(8, 300_000)
	want := ends(c, data)
	got := make([][]int, 4)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() { got[i] = ends(c, data) })
	}
	group.Wait()
	for i := range got {
		require.Equal(t, want, got[i])
	}
}

// TestGolden holds the format still: the values are those that SPEC.md prints. A change means a new Algorithm number.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	spec := strings.Join(strings.Fields(string(text)), " ")

	var key [32]byte
	for i := range key {
		key[i] = byte(i)
	}
	input := make([]byte, 1<<20)
	h := blake3.New()
	_, err = h.WriteString("tidemark chunker test input")
	require.NoError(t, err)
	_, err = h.Digest().Read(input)
	require.NoError(t, err)
	require.Equal(t, "327095267d837f78", hex.EncodeToString(input[:8]))
	require.Contains(t, spec, "327095267d837f78")

	large, err := New(key, Params{Min: 16 << 10, Avg: 64 << 10, Max: 256 << 10})
	require.NoError(t, err)
	tiny, err := New(key, Params{Min: 64, Avg: 256, Max: 1024})
	require.NoError(t, err)
	require.Equal(t, large.gear, tiny.gear)
	for _, c := range []struct {
		what string
		got  []int
		want []int
	}{
		{"normal points", []int{large.normal, tiny.normal}, []int{53666, 209}},
		{"large cuts", ends(large, input), []int{59914, 100689, 154949, 208664, 270895, 342606, 447450, 501953, 559925,
			626958, 687513, 745528, 802020, 858885, 937890, 996360, 1017533, 1048576}},
		{"tiny cuts", ends(tiny, input[:4096]), []int{267, 338, 562, 774, 1009, 1235, 1488, 1582, 1832, 2045, 2188, 2446,
			2665, 2888, 3128, 3339, 3563, 3778, 4012, 4095, 4096}},
		{"zeros", ends(tiny, make([]byte, 4096)), []int{1024, 2048, 3072, 4096}},
	} {
		require.Equal(t, c.want, c.got, c.what)
		require.Contains(t, spec, strings.Trim(fmt.Sprint(c.want), "[]"), "SPEC.md: %s", c.what)
	}
	require.Equal(t, [2]uint64{70368744177664, 1125899906842624}, [2]uint64{large.hard, large.easy})
	require.Contains(t, spec, "70368744177664 1125899906842624")
	for i, want := range map[int]uint64{0: 0x98f4f8ab6c635199, 1: 0x660ff1c955c81217, 255: 0xf017b60c64506d8b} {
		require.Equal(t, want, large.gear[i])
		require.Contains(t, spec, fmt.Sprintf("%#016x", want))
	}
	require.Contains(t, spec, tableContext)
	require.Equal(t, uint8(1), Algorithm)
}

func FuzzNext(f *testing.F) {
	f.Add(uint16(64), uint16(128), uint16(256), 100, []byte("a short input"))
	f.Add(uint16(100), uint16(1000), uint16(4000), 1, random(1, 4000))
	f.Add(uint16(64), uint16(200), uint16(500), 3000, make([]byte, 3000))
	f.Fuzz(func(t *testing.T, low, mean, high uint16, step int, data []byte) {
		p := Params{Min: uint32(low), Avg: uint32(mean), Max: uint32(high)}
		if len(data) > 4<<10 {
			return // the reference is slow, and nothing new happens after some chunks
		}
		c, err := New([32]byte{byte(low)}, p)
		if err != nil {
			require.ErrorIs(t, err, ErrParams)
			return
		}
		want := reference(c, p, data)
		require.Equal(t, want, ends(c, data))
		step = max(32, min(step, len(data)))
		var got []int
		for at, have := 0, 0; at < len(data); {
			n := c.Next(data[at:have], have == len(data))
			if n == 0 {
				have = min(len(data), have+step)
				continue
			}
			at += n
			got = append(got, at)
		}
		require.Equal(t, want, got)
	})
}

// Larger chunks differ from those of the default in scale only.
func TestAverageKeepsTheProportions(t *testing.T) {
	require.Equal(t, Params{Min: 32 << 10, Avg: 64 << 10, Max: 256 << 10}, DefaultParams())
	for avg := uint32(16 << 10); avg <= 4<<20; avg *= 2 {
		p := Average(avg)
		require.NoError(t, p.Validate())
		require.Equal(t, Params{Min: avg / 2, Avg: avg, Max: 4 * avg}, p)
		require.LessOrEqual(t, p.Max, uint32(config.MaxChunk))
	}
}
