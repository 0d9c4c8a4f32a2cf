package rig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

const secret = "correct horse battery staple"

// Place is the working folder of one candidate. It is not shared or kept.
type Place struct{ root string }

func (p Place) repo() string { return filepath.Join(p.root, "repo") }
func (p Place) home() string { return filepath.Join(p.root, "home") }

// Candidate is a program with the flags it is measured with.
type Candidate struct {
	Name string
	Tool string   // "tidemark", "restic", "borg": those of one tool begin with a copy of one empty repository
	Argv []string // of a backup; the tree comes behind
	Init []string // makes the repository
}

// env is the environment with which a tool finds its repository. All local state lies on the disk, except what must lie
// in memory.
func (c *Candidate) env(p Place, runtimeDir string) []string {
	return append(os.Environ(),
		"HOME="+p.home(), "XDG_CACHE_HOME="+p.home()+"/cache", "XDG_CONFIG_HOME="+p.home()+"/config",
		"XDG_DATA_HOME="+p.home()+"/data", "TMPDIR="+p.home(), "XDG_RUNTIME_DIR="+runtimeDir,
		"TIDEMARK_REPOSITORY="+p.repo(), "TIDEMARK_PASSWORD="+secret,
		"RESTIC_REPOSITORY="+p.repo(), "RESTIC_PASSWORD="+secret,
		"BORG_REPO="+p.repo(), "BORG_PASSPHRASE="+secret, "BORG_BASE_DIR="+p.home(),
		"BORG_RELOCATED_REPO_ACCESS_IS_OK=yes",
	)
}

// Tidemark is a candidate under a policy; "off" is the same without any. Flags in more take precedence.
func Tidemark(program, policy, medium string, more ...string) Candidate {
	argv := []string{program, "backup", "--json", "--medium", medium}
	if policy == "off" {
		// Important, because worse policies would still lower the priority for the processor.
		argv = append(argv, "--policy", "important", "--lowpri-throttle-enabled=0")
	} else {
		argv = append(argv, "--policy", policy)
	}
	return Candidate{Name: policy, Tool: "tidemark", Argv: append(argv, more...),
		Init: []string{program, "init", "--quiet"}}
}

// Peers returns other tools with the commands of their documentation, and the names of those that are not installed.
func Peers() (list []Candidate, missing []string) {
	quiet := []string{"ionice", "-c3", "nice", "-n19"}
	for _, peer := range []Candidate{
		{
			Tool: "restic", Init: []string{"restic", "init", "--quiet"},
			Argv: append(quiet[:4:4], "restic", "backup", "--json"),
		},
		{
			Tool: "borg", Init: []string{"borg", "init", "--encryption", "repokey-blake2"},
			Argv: append(quiet[:4:4], "borg", "create", "--compression", "zstd,3", "::{now:%Y-%m-%dT%H:%M:%S.%f}"),
		},
	} {
		if _, err := exec.LookPath(peer.Tool); err != nil {
			missing = append(missing, peer.Tool)
			continue
		}
		peer.Name = "ionice " + peer.Tool
		list = append(list, peer)
	}
	return list, missing
}

// Templates makes an empty repository for the tool of each candidate. Deriving a key takes a second, which would
// otherwise be part of each measurement.
func (d *Disk) Templates(ctx context.Context, candidates []Candidate) error {
	seen := map[string]bool{}
	for _, c := range candidates {
		if seen[c.Tool] {
			continue
		}
		seen[c.Tool] = true
		p := Place{d.At("template", c.Tool)}
		if err := os.MkdirAll(p.home(), 0o700); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, c.Init[0], c.Init[1:]...)
		cmd.Env = c.env(p, d.runtime)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(c.Init, " "), err, kit.Tail(out))
		}
	}
	return nil
}

// Fresh makes a place with an empty repository.
func (d *Disk) Fresh(c *Candidate, name string) (Place, error) {
	p := Place{d.At("work", name)}
	if err := os.RemoveAll(p.root); err != nil {
		return p, err
	}
	if err := os.MkdirAll(p.home(), 0o700); err != nil {
		return p, err
	}
	return p, os.CopyFS(p.repo(), os.DirFS(Place{d.At("template", c.Tool)}.repo()))
}

// Keepsake keeps a place as a template: the state of a candidate after its backups. Copy makes a place from it.
func (d *Disk) Keepsake(p Place, name string) error {
	if err := os.MkdirAll(d.At("template"), 0o700); err != nil {
		return err
	}
	return os.Rename(p.root, d.At("template", name))
}

// Copy makes a place from one that was kept. Files of the repository are linked instead of copied, since no tool here
// overwrites an existing file of its repository; the local state is copied.
func (d *Disk) Copy(ctx context.Context, template, name string) (Place, error) {
	p, from := Place{d.At("work", name)}, Place{d.At("template", template)}
	if err := os.RemoveAll(p.root); err != nil {
		return p, err
	}
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		return p, err
	}
	if _, err := Command(ctx, "cp", "-al", from.repo(), p.repo()); err != nil {
		return p, err
	}
	_, err := Command(ctx, "cp", "-a", from.home(), p.home())
	return p, err
}

// Clear removes all places.
func (d *Disk) Clear() error { return os.RemoveAll(d.At("work")) }

// Job is a backup that runs.
type Job struct {
	cmd    *exec.Cmd
	began  time.Time
	Events Events
	stderr bytes.Buffer
	Done   chan struct{} // closed at the end; then:
	Took   time.Duration
	Err    error
}

// Start begins a backup of a tree.
func (d *Disk) Start(ctx context.Context, c *Candidate, p Place, tree string) (*Job, error) {
	argv := append(c.Argv[:len(c.Argv):len(c.Argv)], tree)
	j := &Job{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), Done: make(chan struct{})}
	j.cmd.Env, j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = c.env(p, d.runtime), p.root, &j.Events, &j.stderr
	j.began = time.Now()
	if err := j.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		defer close(j.Done)
		err := j.cmd.Wait()
		j.Took = time.Since(j.began)
		if err != nil {
			j.Err = fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, kit.Tail(j.stderr.Bytes()))
		}
	}()
	return j, nil
}

// Backup runs one backup. One that exceeds the limit is killed: ErrTooLong.
func (d *Disk) Backup(ctx context.Context, c *Candidate, p Place, tree string, limit time.Duration) (*Job, error) {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	j, err := d.Start(inner, c, p, tree)
	if err != nil {
		return nil, err
	}
	<-j.Done
	if j.Err != nil && ctx.Err() == nil && inner.Err() != nil {
		return j, fmt.Errorf("%w: %s after %v", ErrTooLong, c.Name, limit)
	}
	return j, j.Err
}

// Ended reports whether it is over.
func (j *Job) Ended() bool {
	select {
	case <-j.Done:
		return true
	default:
		return false
	}
}

// Moved returns how many bytes the process has read from disks and written so far, by the kernel's counters: reads when
// they are submitted, writes when a page becomes dirty. It is false when the process has ended.
func (j *Job) Moved() (uint64, bool) {
	text, err := sysinfo.ReadFile("/proc/" + strconv.Itoa(j.cmd.Process.Pid) + "/io")
	if err != nil || j.Ended() {
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

// Awake waits until the job does I/O, at most for some time.
func (j *Job) Awake(ctx context.Context) error {
	for limit := time.Now().Add(5 * time.Second); time.Now().Before(limit) && !j.Ended(); {
		if n, _ := j.Moved(); n > 16<<20 {
			return nil
		}
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
