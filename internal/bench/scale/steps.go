package scale

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// secret opens the repository. Stretching it is part of each start of the program.
const secret = "correct horse battery staple"

// The steps.
const (
	stepWalk      = "serial walk"
	stepFirst     = "first backup"
	stepUnchanged = "unchanged"
	stepChanged   = "1 % changed"
	stepCheck     = "check"
	stepRestore   = "restore a directory"
	stepList      = "snapshots"
	stepForget    = "forget"
	stepPrune     = "prune"
)

// sampleFiles is about how many files the directory has that is restored.
const sampleFiles = 1000

// scale is all that was measured at one size.
type scale struct {
	Tree    Made          `json:"tree"`
	Steps   []measurement `json:"steps"`
	Changed int           `json:"changed_files"`
	Size    extents       `json:"after_first"`
	After   extents       `json:"after_change"`
	Pruned  extents       `json:"after_prune"`
}

// measurement is one step in one round.
type measurement struct {
	Step    string  `json:"step"`
	Round   int     `json:"round"`
	Seconds float64 `json:"seconds"`     // from start to end
	CPU     float64 `json:"cpu_seconds"` // user and system
	Memory  memory  `json:"memory"`
	Objects uint64  `json:"objects"` // that the step is about
}

// rate returns objects per second.
func (m measurement) rate() float64 { return float64(m.Objects) / m.Seconds }

// bench measures at one size.
type bench struct {
	settings
	dir, tree string
	shape     Shape
	walk      func(ctx context.Context, round int) error // runs and records a serial walk
	result    scale
}

func (b *bench) repo() string  { return filepath.Join(b.dir, "repo") }
func (b *bench) cache() string { return filepath.Join(b.dir, "cache") }

func (b *bench) steps(ctx context.Context) error {
	objects := b.result.Tree.Objects()
	if err := b.tidemark(ctx, "", 0, 0, "init"); err != nil {
		return err
	}
	if err := b.tidemark(ctx, stepFirst, 1, objects, "backup", b.tree); err != nil {
		return err
	}
	var err error
	if b.result.Size, err = measureExtents(b.repo(), b.cache()); err != nil {
		return err
	}
	for i := range b.rounds {
		turns := []func() error{
			func() error { return b.walk(ctx, i+1) },
			func() error { return b.tidemark(ctx, stepUnchanged, i+1, objects, "backup", b.tree) },
		}
		for k := range turns {
			if err := turns[(k+i)%len(turns)](); err != nil {
				return err
			}
		}
	}
	if b.result.Changed, err = b.shape.Change(ctx, b.tree, 100); err != nil {
		return fmt.Errorf("change files: %w", err)
	}
	sample := b.shape.Sample(sampleFiles)
	at := "latest:" + filepath.Join(b.tree, sample)
	out := filepath.Join(b.dir, "out")
	inSample, err := kit.Count(filepath.Join(b.tree, sample))
	if err != nil {
		return err
	}
	err = b.each(ctx, []call{
		{stepChanged, objects, []string{"backup", b.tree}},
		{stepList, 0, []string{"snapshots"}},
		{stepCheck, objects, []string{"check"}},
		{stepRestore, uint64(inSample), []string{"restore", at, "--target", out}},
	})
	if err != nil {
		return err
	}
	restored, err := kit.Count(out)
	if err != nil {
		return err
	}
	if restored != inSample {
		return fmt.Errorf("restored %d objects of %s, there are %d", restored, sample, inSample)
	}
	if b.result.After, err = measureExtents(b.repo(), b.cache()); err != nil {
		return err
	}
	err = b.each(ctx, []call{{stepForget, 0, []string{"forget", "--keep-last", "1"}},
		{stepPrune, objects, []string{"prune"}}})
	if err != nil {
		return err
	}
	b.result.Pruned, err = measureExtents(b.repo(), b.cache())
	return err
}

// call is one run of the program.
type call struct {
	step    string
	objects uint64
	args    []string
}

// each makes calls in their order.
func (b *bench) each(ctx context.Context, calls []call) error {
	for _, c := range calls {
		if err := b.tidemark(ctx, c.step, 1, c.objects, c.args...); err != nil {
			return err
		}
	}
	return nil
}

// walkTree starts this program as a walk.
func (b *bench) walkTree(ctx context.Context, round int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return b.do(ctx, stepWalk, round, b.result.Tree.Objects(), self, kit.Word, b.tree)
}

// tidemark runs the program that is measured.
func (b *bench) tidemark(ctx context.Context, step string, round int, objects uint64, args ...string) error {
	return b.do(ctx, step, round, objects, b.program, append(args, "--quiet")...)
}

// do runs a program, and records it as a step if that has a name.
func (b *bench) do(ctx context.Context, step string, round int, objects uint64, program string, args ...string) error {
	if b.cold && step != "" {
		if err := kit.DropCaches(ctx); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &out, &out
	cmd.Env = append(os.Environ(), "HOME="+b.dir, "XDG_CONFIG_HOME="+filepath.Join(b.dir, "config"),
		"TIDEMARK_PASSWORD="+secret,
		"TIDEMARK_REPOSITORY="+b.repo(), "TIDEMARK_CACHE_DIR="+b.cache(),
		"TIDEMARK_POLICY="+b.policy)
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	watched := watchMemory(cmd.Process.Pid)
	err := cmd.Wait()
	m := measurement{Step: step, Round: round, Seconds: time.Since(start).Seconds(), Objects: objects, Memory: watched()}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out.Bytes())
	}
	if step == "" {
		return nil
	}
	m.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	b.result.Steps = append(b.result.Steps, m)
	fmt.Fprintf(os.Stderr, "%-20s round %d: %9.2f s, CPU %9.2f s, %4.0f MiB\n", step, round, m.Seconds, m.CPU,
		mib(m.Memory.Peak))
	return nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
