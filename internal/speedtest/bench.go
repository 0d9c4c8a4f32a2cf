package speedtest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// What is a measured quantity.
type What uint8

// The quantities, in the order of results.
const (
	Compress     What = iota // frames of 1 MiB, at a level
	Decompress               // frames: decrypted, authenticated and decompressed, as a restore does
	Hash                     // the keyed BLAKE3 of chunks
	Chunk                    // finding the cut points
	Seal                     // encrypting frames into a pack
	Write                    // a file, flushed every 16 MiB and at its end
	ReadInOrder              // a file that is not in the page cache
	ReadAtRandom             // 4 KiB at a time, one after the other
)

// String returns a few words for w.
func (w What) String() string {
	words := []string{"compress", "decompress", "hash", "chunk", "encrypt", "write and flush", "sequential read",
		"random 4 KiB read"}
	if int(w) < len(words) {
		return words[w]
	}
	return fmt.Sprintf("measurement %d", uint8(w))
}

// Disk reports whether w concerns a disk rather than the processor.
func (w What) Disk() bool { return w >= Write }

// Result is one measurement.
type Result struct {
	Policy iopolicy.Policy
	What   What
	Level  int     // of Compress, 1 (fastest) to 4 (smallest); 0 for the others
	CPUs   int     // processors used concurrently; 1 for a disk
	Rate   float64 // the median of Runs: bytes per second, of uncompressed data; operations per second of ReadAtRandom
	Spread float64 // of the runs: (highest - lowest) / median
	Runs   int
	Wall   time.Duration // sum of all runs
	CPU    time.Duration // processor time of this process in them, user and system
	// OffDevice: a read bypassed the devices of this machine, so the result says little about a disk: the file lies in
	// memory, or on another machine. Detected on Linux only.
	OffDevice bool
}

// Operations reports whether Rate counts operations, not bytes.
func (r *Result) Operations() bool { return r.What == ReadAtRandom }

// Config selects what is measured. The zero value measures the processor at the four tiers, without gates.
type Config struct {
	Policies []iopolicy.Policy // none: Important, Standard, Utility, Throttle; sorted with the highest priority first
	// Pass applies a policy to the process and to the gate of Dir's device, and returns the gate client. restore is
	// called when the policy was measured. nil: no policy is applied. Policies are measured with the highest priority
	// first, because an unprivileged process cannot raise its priority again.
	Pass func(p iopolicy.Policy) (pass *iopolicy.Pass, restore func())
	Dir  string // directory of the test files; "": no disk is measured
	// the maximum size of a file; 0: 64 MiB. Twice that and 16 MiB must be free, and at most Runs times that is written
	// for each policy
	Bytes  int64
	Time   time.Duration // for each policy, about; 0: 2 s. In forced idle gaps a disk may take longer
	Runs   int           // of each measurement; 0: 3
	Levels []int         // of compression; none: 1 to 4
	What   []What        // none: all; disk reads also need Write, since they read the written file
}

const (
	defaultBytes = 64 << 20
	defaultTime  = 2 * time.Second
	defaultRuns  = 3
	maxRuns      = 100
)

// complete fills in defaults and rejects invalid values.
func (c *Config) complete() error {
	if len(c.Policies) == 0 {
		c.Policies = iopolicy.Policies()
	}
	c.Policies = slices.Clone(c.Policies)
	slices.SortStableFunc(c.Policies, func(a, b iopolicy.Policy) int { return cmp.Compare(a.Tier(), b.Tier()) })
	c.Policies = slices.Compact(c.Policies)
	if len(c.Levels) == 0 {
		c.Levels = []int{1, 2, 3, 4}
	}
	c.Bytes = cmp.Or(c.Bytes, defaultBytes)
	c.Time = cmp.Or(c.Time, defaultTime)
	c.Runs = cmp.Or(c.Runs, defaultRuns)
	if len(c.What) == 0 {
		for w := Compress; w <= ReadAtRandom; w++ {
			c.What = append(c.What, w)
		}
	}
	disk := slices.Contains(c.What, Write)
	for _, w := range c.What {
		if w > ReadAtRandom || w.Disk() && !disk {
			return fmt.Errorf("%s: %w: take what there is, and %q for what is read", w, ErrConfig, Write)
		}
	}
	if !disk {
		c.Dir = ""
	}
	for _, level := range c.Levels {
		if level < 1 || level > pack.MaxLevel {
			return fmt.Errorf("compression level %d: %w: levels are 1 to %d", level, ErrConfig, pack.MaxLevel)
		}
	}
	switch {
	case c.Bytes < leastBytes:
		return fmt.Errorf("a file of %d bytes: %w: it must have at least %d", c.Bytes, ErrConfig, leastBytes)
	case c.Time < 0:
		return fmt.Errorf("a time of %v: %w: it must be positive", c.Time, ErrConfig)
	case c.Runs < 0 || c.Runs > maxRuns:
		return fmt.Errorf("%d runs: %w: take 1 to %d", c.Runs, ErrConfig, maxRuns)
	}
	if c.Pass == nil {
		c.Pass = func(iopolicy.Policy) (*iopolicy.Pass, func()) { return nil, func() {} }
	}
	return nil
}

// Run measures one policy after the other and yields each result when it is complete. The error of Run itself wraps
// ErrConfig or ErrSpace, or comes from Dir; then nothing was measured. A yielded error ends the measurement; it wraps
// the cause if ctx has ended. All files are removed, except after a power failure or SIGKILL; their names begin with
// ".tidemark-bench-".
func Run(ctx context.Context, c Config) (iter.Seq2[Result, error], error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	if c.Dir != "" { // before the processor is measured, so that errors are reported at once
		d, err := openDisk(c.Dir, c.Bytes)
		if err != nil {
			return nil, err
		}
		d.close()
	}
	var tasks []task
	if slices.ContainsFunc(c.What, func(w What) bool { return !w.Disk() }) {
		data, err := newCorpus()
		if err != nil {
			return nil, err
		}
		tasks = slices.DeleteFunc(data.tasks(c.Levels), func(t task) bool { return !slices.Contains(c.What, t.what) })
	}
	return func(yield func(Result, error) bool) {
		b := &bench{Config: c, tasks: tasks}
		if c.Dir != "" {
			var err error
			if b.disk, err = openDisk(c.Dir, c.Bytes); err != nil {
				yield(Result{}, err)
				return
			}
			defer b.disk.close()
		}
		for _, policy := range c.Policies {
			if !b.policy(ctx, policy, yield) {
				return
			}
		}
	}, nil
}

// bench is one call of Run.
type bench struct {
	Config
	tasks []task
	disk  *disk // nil: not measured
}

// policy measures everything at one policy and reports whether to continue.
func (b *bench) policy(ctx context.Context, policy iopolicy.Policy, yield func(Result, error) bool) bool {
	pass, restore := b.Pass(policy)
	if restore != nil {
		defer restore()
	}
	for r, err := range b.measure(ctx, pass) {
		r.Policy = policy
		if !yield(r, err) || err != nil {
			return false
		}
	}
	return true
}

// measure runs the measurements one after the other, each with the same share of the time.
func (b *bench) measure(ctx context.Context, pass *iopolicy.Pass) iter.Seq2[Result, error] {
	cpus := []int{1}
	if n := runtime.GOMAXPROCS(0); n > 1 {
		cpus = append(cpus, n)
	}
	var disk []What
	for _, w := range []What{Write, ReadInOrder, ReadAtRandom} {
		if b.disk != nil && slices.Contains(b.What, w) {
			disk = append(disk, w)
		}
	}
	share := b.Time / time.Duration(max(1, len(b.tasks)*len(cpus)+len(disk))*b.Runs)
	return func(yield func(Result, error) bool) {
		for _, t := range b.tasks {
			for _, n := range cpus {
				s, err := t.measure(ctx, n, b.Runs, share)
				r := s.result(t.what)
				r.Level, r.CPUs = t.level, n
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
		for _, what := range disk {
			s, err := b.disk.measure(ctx, pass, what, b.Runs, share)
			r := s.result(what)
			r.CPUs = 1
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
