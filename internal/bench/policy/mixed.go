package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// phase is a part of a mixed foreground.
type phase struct {
	foreground *rig.Foreground // nil: a pause
	length     time.Duration
}

// phases cuts a time into foregrounds of 3 to 15 seconds in random order, every third of them a pause.
func phases(total time.Duration) (all []phase) {
	random := rand.New(rand.NewPCG(9, 9))
	list := rig.Foregrounds(false)
	for i := 0; total > 0; i++ {
		p := phase{length: min(total, 3*time.Second+time.Duration(random.Int64N(int64(12*time.Second))))}
		if i%3 != 2 {
			p.foreground = &list[random.IntN(len(list))]
		}
		total -= p.length
		all = append(all, p)
	}
	return all
}

// mixed runs a mixed foreground beside backups of the first candidate that yields, and samples the status of the job.
func (b *bench) mixed(ctx context.Context) (err error) {
	var c *rig.Candidate
	for i := range b.backups {
		if b.backups[i].Name != "off" {
			c = &b.backups[i]
			break
		}
	}
	if c == nil || b.mix <= 0 {
		return nil
	}
	if err := b.disk.Settle(ctx, true); err != nil {
		return err
	}
	keeper, _, err := b.disk.Keep(ctx, c, b.disk.At("code"))
	if keeper == nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Stop()) }()
	s := &statusSampler{bench: b, begin: time.Now(), now: "pause"}
	inner, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() { s.run(inner) })
	for _, p := range phases(b.mix) {
		if err == nil {
			err = s.during(ctx, p)
		}
	}
	cancel()
	sampling.Wait()
	b.samples = s.rows
	b.say("%d samples beside the mixed foreground", len(s.rows))
	return err
}

// statusSampler polls the status of a job.
type statusSampler struct {
	bench *bench
	begin time.Time
	rows  []string // of a CSV

	mu  sync.Mutex
	now string // the foreground
}

// during runs one phase.
func (s *statusSampler) during(ctx context.Context, p phase) error {
	name, load, err := "pause", rig.Running(nil), error(nil)
	if p.foreground != nil {
		name = p.foreground.Key
		load, err = s.bench.disk.Apply(ctx, p.foreground)
	}
	s.mu.Lock()
	s.now = name
	s.mu.Unlock()
	if err == nil {
		err = rig.Pause(ctx, p.length)
	}
	if load != nil {
		_, stopped := load.Stop()
		err = errors.Join(err, stopped)
	}
	return err
}

// pollInterval is the polling interval. Each poll starts a process.
const pollInterval = 500 * time.Millisecond

func (s *statusSampler) run(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		out, err := s.bench.disk.Ask(ctx, s.bench.program, "tier", "show", "--json")
		if err != nil {
			s.bench.say("tier show: %v", err)
			continue
		}
		s.mu.Lock()
		now := s.now
		s.mu.Unlock()
		s.rows = append(s.rows, statusRows(out, time.Since(s.begin), now)...)
	}
}

// mixedHead names the columns of a sample.
const mixedHead = "seconds,foreground,device,state,turn_budget_seconds,charged,asleep_seconds,files_done"

// statusRows makes rows of what tier show prints: one for each gate. turn_budget_seconds is empty where the job does
// not report it.
func statusRows(out []byte, at time.Duration, foreground string) (rows []string) {
	for line := range strings.Lines(string(out)) {
		var job struct {
			Status struct {
				FilesDone uint64 `json:"files_done"`
				Gates     []struct {
					Device string `json:"device"`
					State  string `json:"state"`
					Impact struct {
						Budget json.RawMessage `json:"turn_budget_seconds"`
					} `json:"impact"`
					Count  uint64    `json:"charged"`
					Asleep []float64 `json:"asleep_seconds"`
				} `json:"gates"`
			} `json:"status"`
		}
		if json.Unmarshal([]byte(line), &job) != nil {
			continue
		}
		for _, g := range job.Status.Gates {
			var asleep float64
			for _, one := range g.Asleep {
				asleep += one
			}
			rows = append(rows, fmt.Sprintf("%.2f,%s,%s,%s,%s,%d,%.3f,%d", at.Seconds(), foreground, g.Device, g.State,
				strings.Trim(string(g.Impact.Budget), `"`), g.Count, asleep, job.Status.FilesDone))
		}
	}
	return rows
}

func (b *bench) mixedText() string {
	if len(b.samples) == 0 {
		return ""
	}
	return "\nSlot grants beside a mixed foreground:\n\n```csv\n" + mixedHead + "\n" + strings.Join(b.samples, "\n") +
		"\n```\n"
}
