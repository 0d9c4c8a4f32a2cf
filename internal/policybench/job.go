package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

const secret = "correct horse battery staple"

// place is where one candidate works: nothing of it is shared or kept.
type place struct{ root string }

func (p place) repo() string { return filepath.Join(p.root, "repo") }
func (p place) home() string { return filepath.Join(p.root, "home") }

// candidate is a program with the flags it is measured with.
type candidate struct {
	name string
	tool string   // "tidemark", "restic", "borg": those of one tool begin with a copy of one empty repository
	argv []string // of a backup; the tree comes behind
	init []string // makes the repository
}

// env is what a tool needs to find its repository. All local state lies on the disk, but for what must lie in memory.
func (c *candidate) env(p place, runtimeDir string) []string {
	return append(os.Environ(),
		"HOME="+p.home(), "XDG_CACHE_HOME="+p.home()+"/cache", "XDG_CONFIG_HOME="+p.home()+"/config",
		"XDG_DATA_HOME="+p.home()+"/data", "TMPDIR="+p.home(), "XDG_RUNTIME_DIR="+runtimeDir,
		"TIDEMARK_REPOSITORY="+p.repo(), "TIDEMARK_PASSWORD="+secret,
		"RESTIC_REPOSITORY="+p.repo(), "RESTIC_PASSWORD="+secret,
		"BORG_REPO="+p.repo(), "BORG_PASSPHRASE="+secret, "BORG_BASE_DIR="+p.home(),
		"BORG_RELOCATED_REPO_ACCESS_IS_OK=yes",
	)
}

// tidemark is a candidate under a policy; off is the same without any.
func (b *bench) tidemark(policy string, more ...string) candidate {
	argv := []string{b.program, "backup", "--json", "--medium", b.medium}
	if policy == "off" {
		// Important, because worse policies would still lower the priority for the processor.
		argv = append(argv, "--policy", "important", "--lowpri-throttle-enabled=0")
	} else {
		argv = append(argv, "--policy", policy)
	}
	return candidate{name: policy, tool: "tidemark", argv: append(argv, more...), init: []string{b.program, "init", "--quiet"}}
}

// all returns tidemark under its policies, and the other tools as far as they are installed.
func (b *bench) all() []candidate {
	list := []candidate{b.tidemark("off"), b.tidemark("important"), b.tidemark("utility"), b.tidemark("throttle")}
	quiet := []string{"ionice", "-c3", "nice", "-n19"}
	for _, peer := range []candidate{
		{
			tool: "restic", init: []string{"restic", "init", "--quiet"},
			argv: append(quiet[:4:4], "restic", "backup", "--quiet"),
		},
		{
			tool: "borg", init: []string{"borg", "init", "--encryption", "repokey-blake2"},
			argv: append(quiet[:4:4], "borg", "create", "--compression", "zstd,3", "::{now:%Y-%m-%dT%H:%M:%S.%f}"),
		},
	} {
		if _, err := exec.LookPath(peer.tool); err != nil {
			b.problem("%s is not installed and left out", peer.tool)
			continue
		}
		peer.name = "ionice " + peer.tool
		list = append(list, peer)
	}
	return list
}

// templates makes an empty repository for each tool. Deriving a key takes a second, which nobody wants to wait for, or to
// measure, every time.
func (b *bench) templates(ctx context.Context) error {
	seen := map[string]bool{}
	for _, c := range b.candidates {
		if seen[c.tool] {
			continue
		}
		seen[c.tool] = true
		p := place{b.disk.at("template", c.tool)}
		if err := os.MkdirAll(p.home(), 0o700); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, c.init[0], c.init[1:]...)
		cmd.Env = c.env(p, b.disk.runtime)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(c.init, " "), err, tail(out))
		}
	}
	return nil
}

// fresh makes a place with an empty repository.
func (b *bench) fresh(c *candidate, name string) (place, error) {
	p := place{b.disk.at("work", name)}
	if err := os.RemoveAll(p.root); err != nil {
		return p, err
	}
	if err := os.MkdirAll(p.home(), 0o700); err != nil {
		return p, err
	}
	return p, os.CopyFS(p.repo(), os.DirFS(place{b.disk.at("template", c.tool)}.repo()))
}

// clear removes all places.
func (b *bench) clear() error { return os.RemoveAll(b.disk.at("work")) }

// job is a backup that runs.
type job struct {
	cmd    *exec.Cmd
	began  time.Time
	events eventLog
	stderr bytes.Buffer
	done   chan struct{} // closed at the end; then:
	took   time.Duration
	err    error
}

// start begins a backup of a tree.
func (b *bench) start(ctx context.Context, c *candidate, p place, tree string) (*job, error) {
	argv := append(c.argv[:len(c.argv):len(c.argv)], tree)
	j := &job{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), done: make(chan struct{})}
	j.cmd.Env, j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = c.env(p, b.disk.runtime), p.root, &j.events, &j.stderr
	j.began = time.Now()
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		defer close(j.done)
		err := j.cmd.Wait()
		j.took = time.Since(j.began)
		if err != nil {
			j.err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, tail(j.stderr.Bytes()))
		}
	}()
	return j, nil
}

// backup does one backup from beginning to end.
func (b *bench) backup(ctx context.Context, c *candidate, p place, tree string) (*job, error) {
	j, err := b.start(ctx, c, p, tree)
	if err != nil {
		return nil, err
	}
	<-j.done
	return j, j.err
}

// kill ends the job wherever it is.
func (j *job) kill() {
	_ = j.cmd.Process.Kill() // it may have ended by itself
	<-j.done
}

func (j *job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// moved tells how many bytes the process has read from disks and written so far, as the kernel counts: reads when they are
// submitted, writes when a page becomes dirty. It is false when the process has ended.
func (j *job) moved() (uint64, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(j.cmd.Process.Pid) + "/io")
	if err != nil || j.ended() {
		return 0, false
	}
	return parseIO(string(text)), true
}

// parseIO adds up read_bytes and write_bytes of a file /proc/PID/io.
func parseIO(text string) (sum uint64) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name == "read_bytes" || name == "write_bytes" {
			n, err := strconv.ParseUint(value, 10, 64)
			if err == nil {
				sum += n
			}
		}
	}
	return sum
}

// awake waits until the job does I/O, at most for some time.
func (j *job) awake(ctx context.Context) error {
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit) && !j.ended(); {
		if n, _ := j.moved(); n > 16<<20 {
			return nil
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// look is what a tidemark said of its gates at one moment.
type look struct {
	at    time.Time
	gates []event.Gate
}

// eventLog takes what a tidemark prints with --json; what other programs print is dropped.
type eventLog struct {
	mu      sync.Mutex
	partial []byte
	looks   []look
	summary *event.BackupSummary
}

// Write takes the next piece of output.
func (l *eventLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, ended := bytes.Cut(l.partial, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		l.line(line)
		l.partial = bytes.Clone(rest)
	}
}

func (l *eventLog) line(text []byte) {
	var kind struct {
		Type string `json:"message_type"`
	}
	if json.Unmarshal(text, &kind) != nil {
		return
	}
	switch kind.Type {
	case "status":
		var s event.Status
		if json.Unmarshal(text, &s) == nil && len(s.Gates) > 0 {
			l.looks = append(l.looks, look{time.Now(), s.Gates})
		}
	case "summary":
		var s event.BackupSummary
		if json.Unmarshal(text, &s) == nil {
			l.summary = &s
		}
	}
}

var errNoGates = errors.New("tidemark told nothing about its gates")

// since returns what the busiest gate did between the first and the last look in a time, and how far those are apart.
func (l *eventLog) since(from, to time.Time) (event.Gate, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var first, last *look
	for i := range l.looks {
		at := &l.looks[i]
		if at.at.Before(from) || at.at.After(to) {
			continue
		}
		if first == nil {
			first = at
		}
		last = at
	}
	if first == last {
		return event.Gate{}, 0, errNoGates
	}
	g := *busiest(last.gates)
	for i := range first.gates {
		if e := &first.gates[i]; e.Device == g.Device {
			g.Charged -= e.Charged
			g.Engaged -= e.Engaged
			g.Held -= e.Held
			for t := range report.Tiers {
				g.Asleep[t] -= e.Asleep[t]
			}
		}
	}
	return g, last.at.Sub(first.at), nil
}

// end returns the busiest gate of the summary, and how long the job took by its own clock.
func (l *eventLog) end() (event.Gate, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.summary == nil || len(l.summary.Gates) == 0 {
		return event.Gate{}, 0, errNoGates
	}
	return *busiest(l.summary.Gates), time.Duration(l.summary.TotalDuration * float64(time.Second)), nil
}

// busiest is the gate of the disk: the one that held most back. Others may be of what a program is loaded from.
func busiest(gates []event.Gate) *event.Gate {
	best := &gates[0]
	for i := range gates {
		if g := &gates[i]; g.Engaged > best.Engaged || g.Engaged == best.Engaged && g.Charged > best.Charged {
			best = g
		}
	}
	return best
}

// asleep adds up all tiers.
func asleep(g *event.Gate) (sum float64) {
	for _, s := range g.Asleep {
		sum += s
	}
	return sum
}
