package tune

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// plant is a model of a backup: three stages. The slowest sets the pace.
type plant struct {
	seek   float64 // bytes per second that one reader gets out of the source
	disk   float64 // all together
	cpus   float64 // processors
	line   float64 // bytes per second of one upload
	wire   float64 // all together
	noise  float64 // of the throughput, as a factor
	random *rand.Rand
}

// compress is what one processor compresses in bytes per second, and to which part, by level: the order of magnitude of
// zstd in Go on source code.
func compress(level int) (speed, size float64) {
	return [...]float64{0, 430e6, 323e6, 130e6}[level], [...]float64{1, 0.227, 0.213, 0.195}[level]
}

// rates returns what each stage could do.
func (p *plant) rates(s Setting) (source, processor, target float64) {
	speed, size := compress(s.Level)
	source = min(p.seek*float64(s.Readers), p.disk)
	processor = speed * min(float64(s.Compressors), p.cpus)
	target = min(p.line*float64(s.Uploads), p.wire) / size
	return source, processor, target
}

func (p *plant) pace(s Setting) float64 {
	a, b, c := p.rates(s)
	return min(a, b, c)
}

func (p *plant) sample(s Setting) Sample {
	source, processor, target := p.rates(s)
	pace := min(source, processor, target)
	// What the compressors do not spend computing they wait for the slower of the other two.
	idle := 1 - pace/(processor*max(1, float64(s.Compressors)/p.cpus))
	if float64(s.Compressors) > p.cpus {
		idle = 1 - pace/processor // they share the processors, and all look busy
	}
	out := Sample{Elapsed: time.Second, Work: pace * math.Exp(p.noise*p.random.NormFloat64())}
	speed, _ := compress(s.Level)
	out.Busy = pace / (speed * p.cpus)
	if target < source {
		out.Blocked = idle
	} else {
		out.Starved = idle
	}
	return out
}

var everything = Bounds{Least: Setting{1, 1, 1, 1}, Most: Setting{16, 2, 6, 3}}

// best finds by trying all which fixed setting is fastest.
func (p *plant) best(b Bounds) float64 {
	top := 0.0
	for r := b.Least.Readers; r <= b.Most.Readers; r++ {
		for c := b.Least.Compressors; c <= b.Most.Compressors; c++ {
			for u := b.Least.Uploads; u <= b.Most.Uploads; u++ {
				for l := b.Least.Level; l <= b.Most.Level; l++ {
					top = max(top, p.pace(Setting{r, c, u, l}))
				}
			}
		}
	}
	return top
}

// run has a tuner drive the plant and returns the mean true pace over the windows from..to.
func (p *plant) run(t *Tuner, from, to int) float64 {
	sum := 0.0
	for i := range to {
		if i >= from {
			sum += p.pace(t.now)
		}
		t.Next(p.sample(t.now))
	}
	return sum / float64(to-from)
}

// TestNearTheBest: whatever is slow, the tuner gets near the best fixed setting, from any start, and what it loses by
// trying is counted.
func TestNearTheBest(t *testing.T) {
	const plants = 600
	worst, sum, far := 1.0, 0.0, 0
	for seed := range uint64(plants) {
		rng := rand.New(rand.NewPCG(seed, 1))
		between := func(a, b float64) float64 { return a * math.Pow(b/a, rng.Float64()) }
		p := &plant{
			seek: between(5e6, 500e6), disk: between(20e6, 3e9), cpus: 1 + float64(rng.IntN(2)),
			line: between(2e6, 500e6), wire: between(2e6, 1e9), noise: 0.03, random: rng,
		}
		start := Setting{1 + rng.IntN(16), 1 + rng.IntN(2), 1 + rng.IntN(6), 1 + rng.IntN(3)}
		share := p.run(New(start, everything), 120, 400) / p.best(everything)
		worst, sum = min(worst, share), sum+share
		if share < 0.9 {
			far++
		}
	}
	t.Logf("mean %.3f of the best fixed setting, worst %.3f, %d of %d below 0.9", sum/plants, worst, far, plants)
	require.Greater(t, sum/plants, 0.97)
	require.Greater(t, worst, 0.8)
	require.LessOrEqual(t, far, plants/100)
}

func TestSlowTarget(t *testing.T) {
	p := &plant{seek: 100e6, disk: 1e9, cpus: 2, line: 6e6, wire: 20e6, random: rand.New(rand.NewPCG(1, 1))}
	tuner := New(Setting{8, 2, 1, 2}, everything)
	p.run(tuner, 0, 100)
	require.GreaterOrEqual(t, tuner.now.Uploads, 4, "more than three fill the line")
	require.Equal(t, 3, tuner.now.Level, "the processors have time")
}

func TestSlowProcessor(t *testing.T) {
	p := &plant{seek: 100e6, disk: 1e9, cpus: 0.5, line: 500e6, wire: 1e9, random: rand.New(rand.NewPCG(1, 1))}
	tuner := New(Setting{8, 2, 2, 2}, everything)
	p.run(tuner, 0, 100)
	require.Equal(t, 1, tuner.now.Level)
}

// TestBusyProcessors: while the processors are busy, the level falls, whatever the throughput seems to say: of files as
// unequal as they are, and with readers and compressors that wait for each other.
func TestBusyProcessors(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tuner := New(Setting{8, 2, 2, 3}, everything)
		next := func() Setting {
			work := 30e6 * math.Exp(0.6*rng.NormFloat64()) // what is compressed three to one takes half as long as noise
			return tuner.Next(Sample{Elapsed: time.Second, Work: work, Starved: 0.5 * rng.Float64(), Busy: 0.91 +
				0.2*rng.Float64()})
		}
		for range sure - 1 {
			require.Equal(t, 3, next().Level, "not before it is sure")
		}
		require.Equal(t, 2, next().Level)
		for range sure + measure + settle {
			next()
		}
		require.Equal(t, 1, tuner.now.Level)
		for range 300 {
			next()
		}
		require.Equal(t, Setting{8, 2, tuner.now.Uploads, 1}, tuner.now, "nothing else helps")
	}
}

// TestLevelComesBack: what was given up while the processors were busy is taken again when the source is what is slow.
func TestLevelComesBack(t *testing.T) {
	p := &plant{seek: 100e6, disk: 1e9, cpus: 1, line: 500e6, wire: 1e9, random: rand.New(rand.NewPCG(1, 1))}
	tuner := New(Setting{8, 2, 2, 2}, everything)
	p.run(tuner, 0, 20)
	require.Equal(t, 1, tuner.now.Level)
	p.disk = 50e6
	p.run(tuner, 0, 100)
	require.Equal(t, 2, tuner.now.Level, "the processors have time again, without a request for more")
}

// TestLowerLevelIsTooMuchForTheTarget: it is taken back where the target cannot take what comes of it.
func TestLowerLevelIsTooMuchForTheTarget(t *testing.T) {
	tuner := New(Setting{8, 2, 2, 2}, Bounds{Least: Setting{8, 2, 2, 1}, Most: Setting{8, 2, 2, 2}})
	low := 0
	for range 400 {
		s := Sample{Elapsed: time.Second, Work: 100e6, Busy: 0.95}
		if tuner.now.Level == 1 {
			low++
			s = Sample{Elapsed: time.Second, Work: 102e6, Busy: 0.7, Blocked: 0.3}
		}
		tuner.Next(s)
	}
	require.LessOrEqual(t, low, 8*(settle+measure), "it is tried ever less often")
	require.Equal(t, restMost, tuner.rests[move{level, false}].length)
}

func TestSlowSource(t *testing.T) {
	p := &plant{seek: 10e6, disk: 80e6, cpus: 2, line: 500e6, wire: 1e9, random: rand.New(rand.NewPCG(1, 1))}
	tuner := New(Setting{1, 2, 2, 2}, everything)
	p.run(tuner, 0, 200)
	require.GreaterOrEqual(t, tuner.now.Readers, 8)
	require.Equal(t, 2, tuner.now.Level, "nothing speaks for another")
}

// TestChangingWorld: what was right for one part of a run is given up in the next.
func TestChangingWorld(t *testing.T) {
	p := &plant{seek: 10e6, disk: 150e6, cpus: 2, line: 100e6, wire: 1e9, random: rand.New(rand.NewPCG(1, 1))}
	tuner := New(Setting{1, 1, 1, 2}, everything)
	p.run(tuner, 0, 200)
	many := tuner.now.Readers
	require.Greater(t, many, 8)
	p.seek, p.line, p.wire = 500e6, 5e6, 10e6 // large files now, and others use the line
	p.run(tuner, 0, 400)
	require.Less(t, tuner.now.Readers, many, "what the source does not need is taken back")
	require.Equal(t, 3, tuner.now.Level)
	p.line, p.wire = 1e9, 1e9
	require.Greater(t, p.run(tuner, 200, 400)/p.best(everything), 0.9)
}

// TestBounds: nothing leaves them, and what is fixed stays.
func TestBounds(t *testing.T) {
	testkit.Slow(t)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var b Bounds
		for k := range knob(knobs) {
			*b.Least.at(k) = 1 + rng.IntN(3)
			*b.Most.at(k) = *b.Least.at(k) + rng.IntN(4)
		}
		tuner := New(Setting{rng.IntN(9), rng.IntN(9), rng.IntN(9), rng.IntN(9)}, b)
		for range 500 {
			s := tuner.now
			for k := range knob(knobs) {
				require.GreaterOrEqual(t, *s.at(k), *b.Least.at(k))
				require.LessOrEqual(t, *s.at(k), *b.Most.at(k))
			}
			share := rng.Float64()
			tuner.Next(Sample{
				Elapsed: time.Duration(rng.IntN(3)) * time.Second, Work: rng.Float64() * float64(rng.IntN(2)),
				Starved: share * rng.Float64(), Blocked: (1 - share) * rng.Float64(),
			})
		}
	}
}

// TestNothingToDo: when nothing passes, as while a gate is closed, nothing is concluded.
func TestNothingToDo(t *testing.T) {
	start := Setting{4, 2, 2, 2}
	tuner := New(start, everything)
	for range 1000 {
		require.Equal(t, start, tuner.Next(Sample{Elapsed: time.Second, Starved: 1}))
	}
}
