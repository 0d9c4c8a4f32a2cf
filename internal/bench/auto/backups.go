package auto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// compare measures all candidates where one thing is slow.
func (b *bench) compare(ctx context.Context, slow string) error {
	p, err := b.place(ctx, slow)
	if err != nil {
		return err
	}
	var taking []candidate
	for _, c := range candidates() {
		if len(b.candidates) == 0 || slices.Contains(b.candidates, c.name) {
			taking = append(taking, c)
		}
	}
	for round := range b.runs {
		for i := range taking {
			c := taking[(i+round)%len(taking)]
			r, err := b.backup(ctx, p, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			r.Slow, r.Candidate, r.Round = slow, c.name, round
			b.records = append(b.records, r)
			fmt.Fprintf(os.Stderr, "%s, %s, round %d: %.1f s, %.1f s of processors, %d MB\n", slow, c.name, round+1, r.Seconds,
				r.Processor, r.Stored/1e6)
		}
	}
	return nil
}

// backup makes a repository, and backs up the tree into it.
func (b *bench) backup(ctx context.Context, p *place, c candidate) (r record, err error) {
	home, err := os.MkdirTemp(b.scratch, "home-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	name := filepath.Base(home) + "-repository"
	folder := filepath.Join(p.folder, name)
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	address := folder
	if p.share != "" {
		address = p.share + "/" + name
	}
	env := append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "XDG_CONFIG_HOME="+home+"/config",
		"TIDEMARK_REPOSITORY="+address, "TIDEMARK_KEY_FILE="+home+"/key", "TIDEMARK_SMB_PASSWORD="+smbtest.Password)
	prepare := exec.CommandContext(ctx, b.program, "init", "--quiet")
	prepare.Env = env
	if out, err := prepare.CombinedOutput(); err != nil {
		return r, fmt.Errorf("init: %w\n%s", err, out)
	}
	if err := p.ready(ctx); err != nil {
		return r, err
	}
	args := append([]string{"backup", "--json", "--policy", "important", "--lowpri-throttle-enabled=0"}, c.args...)
	cmd := p.command(ctx, b.program, append(args, p.tree)...)
	cmd.Env = env
	var out, wrong bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &wrong
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("backup: %w\n%s", err, wrong.Bytes())
	}
	r.Seconds = time.Since(began).Seconds()
	r.Processor = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return r, r.read(out.String())
}

// read takes the recorded fields from the summary of a backup.
func (r *record) read(out string) error {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var summary struct {
		Type    string            `json:"message_type"`
		Stored  int64             `json:"data_added_packed"`
		Workers []json.RawMessage `json:"workers"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil || summary.Type != "summary" {
		return fmt.Errorf("backup ended without a summary: %q", lines[len(lines)-1])
	}
	r.Stored, r.Workers = summary.Stored, summary.Workers
	return nil
}
