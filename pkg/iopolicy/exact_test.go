package iopolicy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// touch is a meter that counts one byte for the operation that is ending, if the scene says that it was on the device.
type touch struct{ ending atomic.Uint64 }

func (m *touch) Submitted() iopolicy.Bytes { return iopolicy.Bytes{Read: m.ending.Load()} }

// stage plays a scene with a real gate, in the time of a bubble. All that happens at one moment happens one after the
// other, in the order of the paper.
type stage struct {
	scene
	gate    *iopolicy.Gate
	meter   touch
	idle    atomic.Bool
	clients []*iopolicy.Client
	began   time.Time

	mu  sync.Mutex
	out []admission
}

// player is a worker's goroutine.
type player struct {
	id     int
	stop   context.CancelCauseFunc
	orders chan struct{} // begin, end, begin, ...
	next   int
	due    int
	going  bool
	done   bool
	asked  bool
}

var errGaveUp = fmt.Errorf("gave up")

func (s *stage) ms() int { return int(time.Since(s.began).Milliseconds()) }

func (s *stage) play(ctx context.Context, p *player, pass *iopolicy.Pass, acts []act) {
	for i, a := range acts {
		if _, ok := <-p.orders; !ok {
			return
		}
		grant, err := pass.Begin(ctx, iopolicy.Op{Kind: a.kind, Bytes: 1 << 20, Certain: a.certain})
		if err != nil {
			s.mu.Lock()
			p.done = true
			s.mu.Unlock()
			return
		}
		s.mu.Lock()
		s.out = append(s.out, admission{s.ms(), p.id, i, grant.Max})
		p.going, p.asked, p.due = true, false, s.ms()+a.takes
		s.mu.Unlock()
		<-p.orders
		if a.touches {
			s.meter.ending.Store(1)
		}
		grant.End(1)
		s.meter.ending.Store(0)
		s.mu.Lock()
		p.going, p.next = false, i+1
		if p.done = p.done || p.next == len(acts); !p.done {
			p.due = s.ms() + acts[p.next].think
		}
		s.mu.Unlock()
	}
}

func (s *stage) apply(c change) {
	switch c.what {
	case "idle", "busy":
		s.idle.Store(c.what == "idle")
	case "hdd":
		s.gate.SetMedium(iopolicy.HDD)
	case "ssd":
		s.gate.SetMedium(iopolicy.SSD)
	case "shut":
		s.gate.Shut()
	case "open":
		s.gate.Open()
	case "policy":
		s.clients[c.client].SetPolicy(c.policy)
	}
}

// may reports whether a player acts now, by asking or by ending.
func (s *stage) may(p *player, now int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.asked || p.done && !p.going || p.due > now {
		return false
	}
	p.asked = !p.going
	return true
}

// onStage returns what the gate admits.
func (s scene) onStage() ([]admission, iopolicy.Stats) {
	st := &stage{scene: s, began: time.Now()}
	cfg := iopolicy.Config{Settings: s.settings, Medium: s.medium, Idle: st.idle.Load}
	if s.metered {
		cfg.Meter = &st.meter
	}
	st.gate = iopolicy.New(cfg)
	var passes []*iopolicy.Pass
	for _, p := range s.clients {
		c := iopolicy.NewClient(p)
		st.clients = append(st.clients, c)
		passes = append(passes, st.gate.Pass(c))
	}
	var all []*player
	for id, w := range s.workers {
		ctx, stop := context.WithCancelCause(context.Background())
		p := &player{id: id, stop: stop, orders: make(chan struct{}), done: len(w.acts) == 0}
		if !p.done {
			p.due = w.acts[0].think
		}
		all = append(all, p)
		go st.play(ctx, p, passes[w.client], w.acts)
	}
	changes := s.changes
	for now := 0; now < s.until; now++ {
		time.Sleep(time.Until(st.began.Add(time.Duration(now) * time.Millisecond)))
		synctest.Wait()
		for len(changes) > 0 && changes[0].at == now {
			st.apply(changes[0])
			changes = changes[1:]
			synctest.Wait()
		}
		for _, p := range all {
			if s.workers[p.id].cancel == now && now > 0 {
				p.stop(errGaveUp)
				synctest.Wait()
				st.mu.Lock()
				p.done = true
				st.mu.Unlock()
			}
		}
		for i := 0; i < len(all); i++ {
			p := all[i]
			if !st.may(p, now) {
				continue
			}
			p.orders <- struct{}{}
			synctest.Wait()
			i = -1
		}
	}
	stats := st.gate.Stats()
	st.gate.Open()
	for _, p := range all {
		p.stop(errGaveUp)
		close(p.orders)
	}
	synctest.Wait()
	return st.out, stats
}

// exact requires that the gate does what the rules require, and returns the paper.
func exact(t *testing.T, s scene) *paper {
	t.Helper()
	var want *paper
	synctest.Test(t, func(t *testing.T) {
		workers := slices.Clone(s.workers)
		want = s.onPaper()
		s.workers = workers
		got, stats := s.onStage()
		compare := func(a, b admission) int {
			return cmpFirst(a.At-b.At, a.Worker-b.Worker, a.Act-b.Act)
		}
		slices.SortFunc(got, compare)
		slices.SortFunc(want.out, compare)
		require.Equal(t, want.out, got)
		require.EqualValues(t, len(got), stats.Operations)
	})
	return want
}

func cmpFirst(by ...int) int {
	for _, n := range by {
		if n != 0 {
			return n
		}
	}
	return 0
}

// steady returns n operations that take and think the same.
func steady(n, think, takes int) []act {
	return slices.Repeat([]act{{think: think, takes: takes, touches: takes > 0}}, n)
}

// patterns of foreground I/O, by name: what one worker of a better tier does.
func patterns() map[string][]act {
	var bursts []act
	for range 6 {
		bursts = append(bursts, act{think: 900, takes: 3})
		bursts = append(bursts, steady(40, 2, 3)...)
	}
	return map[string][]act{
		"none":                     {},
		"continuous":               steady(3000, 0, 2),
		"one long":                 {{think: 300, takes: 3000}},
		"one short":                {{think: 300, takes: 4}},
		"gaps shorter than 25 ms":  steady(300, 20, 3),
		"gaps longer than 25 ms":   steady(120, 30, 3),
		"gaps shorter than 100 ms": steady(60, 95, 3),
		"gaps longer than 100 ms":  steady(45, 110, 3),
		"gaps shorter than 500 ms": steady(10, 490, 5),
		"gaps longer than 500 ms":  steady(8, 600, 5),
		"on and off":               bursts,
		"cached":                   steady(3000, 1, 0),
	}
}

// TestEveryTierMediumAndPattern: one, and several workers beside each pattern of foreground I/O.
func TestEveryTierMediumAndPattern(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	for name, foreground := range patterns() {
		for _, medium := range []iopolicy.Medium{iopolicy.HDD, iopolicy.SSD} {
			for _, policy := range []iopolicy.Policy{iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle} {
				for _, workers := range []int{1, 3} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, medium, policy, workers), func(t *testing.T) {
						s := scene{
							settings: iopolicy.DefaultSettings(), medium: medium, until: 5000, metered: workers > 1,
							clients: []iopolicy.Policy{iopolicy.Important, policy},
							workers: []worker{{client: 0, acts: foreground}},
						}
						for i := range workers {
							s.workers = append(s.workers, worker{client: 1, acts: steady(4000, 1+i, 3+i)})
						}
						paper := exact(t, s)
						if name == "none" || name == "cached" {
							require.Zero(t, paper.waited, "no window, no sleep")
						} else {
							require.Positive(t, paper.waited)
						}
					})
				}
			}
		}
	}
}

// TestTiersAlternate: clients of all tiers, each with workers, beside continuous foreground I/O and without.
func TestTiersAlternate(t *testing.T) {
	for _, medium := range []iopolicy.Medium{iopolicy.HDD, iopolicy.SSD} {
		for _, first := range []iopolicy.Policy{iopolicy.Important, iopolicy.Passive} {
			s := scene{
				settings: iopolicy.DefaultSettings(), medium: medium, until: 6000,
				clients: []iopolicy.Policy{first, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle},
				workers: []worker{{client: 0, acts: steady(3000, 1, 2)}},
			}
			for c := 1; c <= 3; c++ {
				for i := range c {
					s.workers = append(s.workers, worker{client: c, acts: steady(5000, i, 2+i)})
				}
			}
			require.Positive(t, exact(t, s).waited)
		}
	}
}

// random makes a scene of all there is.
func random(seed uint64) scene {
	r := rand.New(rand.NewPCG(seed, 3))
	some := func(n ...int) int { return n[r.IntN(len(n))] }
	policies := []iopolicy.Policy{iopolicy.Important, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle,
		iopolicy.Passive}
	s := scene{settings: iopolicy.DefaultSettings(), medium: iopolicy.Medium(r.IntN(2)), metered: r.IntN(2) == 0,
		until: 3000}
	if r.IntN(4) == 0 {
		for t := 1; t < iopolicy.Tiers; t++ {
			s.settings.Window[t] = time.Duration(r.IntN(300)) * time.Millisecond
			s.settings.PeriodHDD[t] = time.Duration(r.IntN(120)) * time.Millisecond
			s.settings.PeriodSSD[t] = time.Duration(r.IntN(20)) * time.Millisecond
		}
	}
	for range 1 + r.IntN(4) {
		s.clients = append(s.clients, policies[r.IntN(5)])
	}
	for range 1 + r.IntN(7) {
		w := worker{client: r.IntN(len(s.clients))}
		pace, length := some(1, 3, 10, 60, 400), some(1, 4, 4, 30)
		for range 1 + r.IntN(150) {
			a := act{think: some(0, 0, r.IntN(pace+1), r.IntN(10*pace)), takes: some(0, 1, r.IntN(length+1), r.IntN(4*length)),
				kind: iopolicy.Kind(r.IntN(4))}
			a.certain = r.IntN(5) == 0
			a.touches = a.takes > 0 && r.IntN(4) > 0 || a.kind == iopolicy.Write
			w.acts = append(w.acts, a)
		}
		if r.IntN(6) == 0 {
			w.cancel = 1 + r.IntN(s.until)
		}
		s.workers = append(s.workers, w)
	}
	shut := false
	for range some(0, 1, 4, 12) {
		c := change{at: r.IntN(s.until), client: r.IntN(len(s.clients)), policy: policies[r.IntN(5)]}
		c.what = []string{"policy", "policy", "policy", "idle", "busy", "hdd", "ssd", "shut"}[r.IntN(8)]
		s.changes = append(s.changes, c)
		shut = shut || c.what == "shut"
	}
	slices.SortStableFunc(s.changes, func(a, b change) int { return a.at - b.at })
	for i := 0; i < len(s.changes) && shut; i++ {
		if s.changes[i].what == "shut" {
			s.changes = slices.Insert(s.changes, i+1, change{at: s.changes[i].at, what: "open"})
			if i+2 < len(s.changes) { // stays shut until the next change
				s.changes[i+1].at = s.changes[i+2].at
			}
		}
	}
	return s
}

// TestRandomScenes: the times of all admitted I/O equal the rules', whatever happens.
func TestRandomScenes(t *testing.T) {
	t.Parallel()
	scenes, waited := 200, 0
	if testing.Short() {
		scenes = 20
	}
	for seed := range uint64(scenes) {
		ok := t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { waited += exact(t, random(seed)).waited })
		if !ok {
			break
		}
	}
	require.Greater(t, waited, 3*scenes, "the scenes are not all idle")
}

// slow skips a test that takes a second or more in a short run (-short).
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: runs without -short")
	}
}
