package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// StartWord is the subcommand by which this program starts the measured program from a small process: the kernel counts
// the memory of a forking process towards the largest resident set of its child.
const StartWord = "start-measured"

// usage is the resource usage of a program, including the programs that it started and waited for.
type usage struct {
	Seconds float64 `json:"seconds"`       // from start to end
	User    float64 `json:"user_seconds"`  // of processors
	System  float64 `json:"sys_seconds"`   // of processors
	Memory  int64   `json:"max_rss"`       // bytes: the largest resident set of a single process
	Read    int64   `json:"read_bytes"`    // from disks
	Written int64   `json:"written_bytes"` // to disks
	Failure string  `json:"failure,omitempty"`
}

// and returns the usage of two programs, one after the other.
func (u usage) and(v usage) usage {
	return usage{u.Seconds + v.Seconds, u.User + v.User, u.System + v.System, max(u.Memory, v.Memory), u.Read + v.Read,
		u.Written + v.Written, u.Failure + v.Failure}
}

func (u usage) cpu() float64 { return u.User + u.System }

// Start runs a program and writes its usage as JSON to descriptor 3.
func Start(_ context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("no program to start")
	}
	report := os.NewFile(3, "report")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	begin := time.Now()
	failed := cmd.Run()
	u := usage{Seconds: time.Since(begin).Seconds()}
	if failed != nil {
		u.Failure = failed.Error()
	}
	if cmd.ProcessState != nil {
		u.User, u.System = cmd.ProcessState.UserTime().Seconds(), cmd.ProcessState.SystemTime().Seconds()
		if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			const sector = 512
			u.Memory, u.Read, u.Written = int64(r.Maxrss), int64(r.Inblock)*sector, int64(r.Oublock)*sector
			if runtime.GOOS == "linux" {
				u.Memory *= 1024
			}
		}
	}
	return json.NewEncoder(report).Encode(u)
}

// measure runs a program in a place, and returns its usage. When ctx ends, it kills the program and its children.
func measure(ctx context.Context, t peer, p place, args []string) (usage, error) {
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	program := t.program
	if args[0] == shellWord {
		program, args = "bash", args[1:]
	}
	from, to, err := os.Pipe()
	if err != nil {
		return usage{}, err
	}
	defer from.Close()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, self, append([]string{StartWord, program}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = p.out, &out, &out, []*os.File{to}
	cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_CACHE_HOME="+p.home+"/cache", "XDG_CONFIG_HOME="+p.home+"/config")
	if t.env != nil {
		cmd.Env = append(cmd.Env, t.env(p)...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	_ = to.Close()
	var u usage
	if decoded := json.NewDecoder(from).Decode(&u); err == nil {
		err = decoded
	}
	if err == nil && u.Failure != "" {
		err = errors.New(u.Failure)
	}
	if err != nil {
		return u, fmt.Errorf("%s %s: %w\n%s", t.name, strings.Join(args, " "), err, kit.Tail(out.Bytes()))
	}
	return u, nil
}
