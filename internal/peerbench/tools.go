package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// place is where one tool works: nothing of it is shared or kept.
type place struct{ repo, home, out string }

// tool is how a program is called for each step.
type tool struct {
	name, program string
	env           func(place) []string
	prepare       func(place) []string // makes the repository; not timed
	backup        func(p place, label, tree string) []string
	restore       func(place) []string
}

const secret = "correct horse battery staple"

// tools returns the programs that are compared. The first is the one that the others are compared with.
func tools(tidemark string) []tool {
	return []tool{
		{
			name: "tidemark", program: tidemark,
			env: func(p place) []string {
				return []string{"TIDEMARK_REPOSITORY=" + p.repo, "TIDEMARK_PASSWORD=" + secret}
			},
			prepare: func(place) []string { return []string{"init", "--quiet"} },
			backup:  func(_ place, _, tree string) []string { return []string{"backup", "--quiet", tree} },
			restore: func(p place) []string { return []string{"restore", "--quiet", "latest", "--target", p.out} },
		},
		{
			name: "restic", program: "restic",
			env: func(p place) []string {
				return []string{"RESTIC_REPOSITORY=" + p.repo, "RESTIC_PASSWORD=" + secret}
			},
			prepare: func(place) []string { return []string{"init", "--quiet"} },
			backup:  func(_ place, _, tree string) []string { return []string{"backup", "--quiet", tree} },
			restore: func(p place) []string { return []string{"restore", "--quiet", "latest", "--target", p.out} },
		},
		{
			name: "borg", program: "borg",
			env: func(p place) []string {
				return []string{"BORG_REPO=" + p.repo, "BORG_PASSPHRASE=" + secret, "BORG_BASE_DIR=" + p.home}
			},
			prepare: func(place) []string { return []string{"init", "--encryption", "repokey-blake2"} },
			backup: func(_ place, label, tree string) []string {
				return []string{"create", "--compression", "zstd,3", "::" + label, tree}
			},
			restore: func(place) []string { return []string{"extract", "::second"} },
		},
	}
}

// step is one thing that is timed.
type step struct {
	name string
	args func(t tool, p place, tree string) []string
}

const sizeStep = "repository"

func steps() []step {
	return []step{
		{"first backup", func(t tool, p place, tree string) []string { return t.backup(p, "first", tree) }},
		{"second backup", func(t tool, p place, tree string) []string { return t.backup(p, "second", tree) }},
		{"restore", func(t tool, p place, _ string) []string { return t.restore(p) }},
	}
}

// measurement is one step of one tool in one run. Of a repository only Bytes is set.
type measurement struct {
	Tool    string  `json:"tool"`
	Tree    string  `json:"tree"`
	Run     int     `json:"run"`
	Step    string  `json:"step"`
	Seconds float64 `json:"seconds,omitempty"`     // from start to end
	CPU     float64 `json:"cpu_seconds,omitempty"` // user and system
	Memory  int64   `json:"max_rss,omitempty"`     // bytes
	Bytes   int64   `json:"bytes,omitempty"`       // of the repository's files
}

// do runs a tool once.
func (b *bench) do(ctx context.Context, t tool, p place, args []string) (measurement, error) {
	if b.cold {
		if err := dropCaches(ctx); err != nil {
			return measurement{}, err
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, t.program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.out, &out, &out
	cmd.Env = append(os.Environ(), "HOME="+p.home, "XDG_CACHE_HOME="+p.home+"/cache", "XDG_CONFIG_HOME="+p.home+"/config")
	cmd.Env = append(cmd.Env, t.env(p)...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return measurement{}, fmt.Errorf("%s %v: %w\n%s", t.name, args, err, tail(out.Bytes()))
	}
	m := measurement{Tool: t.name, Seconds: time.Since(start).Seconds()}
	m.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.Memory = int64(usage.Maxrss) * rssUnit
	}
	return m, nil
}
