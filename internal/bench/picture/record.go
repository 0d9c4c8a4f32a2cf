package picture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/bench/rig"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// Times of the other program, in seconds since the backup was started. After the backup it runs once more, alone.
const (
	firstFrom, firstTo   = 6, 14
	secondFrom, secondTo = 21, 27
	alone                = 4
	sampleEvery          = 250 * time.Millisecond // of its reads
)

// recorder collects the lines of one run.
type recorder struct {
	dir     string
	program string
	started time.Time

	mu  sync.Mutex
	all []line
}

func (r *recorder) add(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Seconds = math.Round(time.Since(r.started).Seconds()*1000) / 1000
	r.all = append(r.all, l)
}

// record makes a source of so many MiB in a temporary folder below dir, backs it up beside a program that comes and
// goes, and returns the events.
func record(ctx context.Context, dir string, mib int) (_ []line, err error) {
	r := &recorder{}
	if r.dir, err = os.MkdirTemp(dir, "tidemark-picture-"); err != nil {
		return nil, fmt.Errorf("make working folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	r.program = filepath.Join(r.dir, "tidemark")
	if err := kit.Build(ctx, r.program); err != nil {
		return nil, err
	}
	if err := rig.Filler(1).File(filepath.Join(r.dir, "foreground"), rig.ForegroundSize); err != nil {
		return nil, err
	}
	if err := rig.Filler(2).Tree(ctx, filepath.Join(r.dir, "source"), int64(mib)<<20); err != nil {
		return nil, err
	}
	if err := kit.DropCaches(ctx); err != nil {
		return nil, err
	}
	return r.run(ctx)
}

// run starts the backup and the other program, and waits for both.
func (r *recorder) run(ctx context.Context) (_ []line, err error) {
	reader, err := rig.NewToucher(filepath.Join(r.dir, "foreground"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	args := []string{"backup", "--policy", "throttle", "--json"}
	cmd := exec.CommandContext(ctx, r.program, append(args, filepath.Join(r.dir, "source"))...)
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_CACHE_HOME=", "XDG_CONFIG_HOME=", "XDG_DATA_HOME=")
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.started = time.Now()
	release, _ := sysinfo.ReadFile("/proc/sys/kernel/osrelease")
	kernel, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
	r.add(line{Head: NewHead(strings.Join(append([]string{"tidemark"}, args...), " ")+" SOURCE", "Linux "+kernel)})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	others := make(chan error, 1)
	ended := make(chan struct{})
	go func() { others <- r.comeAndGo(ctx, reader, ended) }()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.event(lines.Bytes())
	}
	err = errors.Join(lines.Err(), cmd.Wait())
	close(ended)
	if err = errors.Join(err, <-others); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, cmd.Stderr)
	}
	return r.all, nil
}

// event adds a line of the backup's output.
func (r *recorder) event(text []byte) {
	var s event.Status
	if json.Unmarshal(text, &s) != nil || s.Type != aStatus && s.Type != aSummary {
		return
	}
	l := line{Head: Head{Type: s.Type}}
	if s.Type == aStatus {
		l.Bytes = s.BytesRead
	}
	if len(s.Gates) > 0 {
		busiest := slices.MaxFunc(s.Gates, func(a, b event.Gate) int { return int(a.Charged) - int(b.Charged) })
		l.Device, l.State, l.Yielding = busiest.Device, busiest.State, busiest.Engaged
	}
	r.add(l)
}

// comeAndGo runs the other program at its times, and once more after the backup has ended.
func (r *recorder) comeAndGo(ctx context.Context, reader *rig.Toucher, ended <-chan struct{}) error {
	for i, spell := range [][2]int{{firstFrom, firstTo}, {secondFrom, secondTo}} {
		if err := rig.Pause(ctx, time.Until(r.started.Add(time.Duration(spell[0])*time.Second))); err != nil {
			return err
		}
		if err := r.hammer(ctx, reader, i+1, r.started.Add(time.Duration(spell[1])*time.Second)); err != nil {
			return err
		}
	}
	select {
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := rig.Pause(ctx, time.Second); err != nil {
		return err
	}
	return r.hammer(ctx, reader, 3, time.Now().Add(alone*time.Second))
}

// hammer reads until some moment, and adds a line for each part of that time.
func (r *recorder) hammer(ctx context.Context, reader *rig.Toucher, spell int, until time.Time) error {
	r.add(line{Head: Head{Type: aReads}})
	for time.Now().Before(until) {
		n := uint64(0)
		for from := time.Now(); time.Since(from) < sampleEvery; n++ {
			if err := reader.Read(); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.add(line{Head: Head{Type: aReads}, Reads: n, Spell: spell})
	}
	return nil
}
