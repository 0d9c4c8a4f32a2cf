package share

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

const secret = "correct horse battery staple"

// place is a way to name a repository. Each round has a repository and a cache of its own.
type place struct {
	name    string
	address func(round int) string
}

// backups: measurement 4.
func (b *bench) backups(ctx context.Context) error {
	s, err := b.server()
	if err != nil {
		return err
	}
	if b.tree, err = kit.Tree(ctx, b.tree); err != nil {
		return err
	}
	p := smbtest.NewProxy(b, s.Addr(), roundTrip)
	share := func(port int, name string) func(int) string {
		return func(round int) string { return b.address(port, name+strconv.Itoa(round)) }
	}
	places := []place{
		{"folder", func(round int) string { return filepath.Join(s.Folder, "local"+strconv.Itoa(round)) }},
		{"share", share(s.Port, "share")},
		{"share, over 15 ms", share(p.Port, "far")},
	}
	for round := -1; round < b.runs; round++ {
		for i := range places {
			if err := b.twice(ctx, places[(i+max(round, 0))%len(places)], round); err != nil {
				return err
			}
		}
	}
	return nil
}

// address is that of a folder on the share, by way of a port.
func (h *host) address(port int, folder string) string {
	return "smb://" + h.share.User + "@127.0.0.1:" + strconv.Itoa(port) + "/" + smbtest.Share + "/" + folder
}

// twice makes a repository and backs up the tree into it, first and unchanged. A warm-up round is not counted.
func (b *bench) twice(ctx context.Context, p place, round int) (err error) {
	home, err := os.MkdirTemp(b.scratch, "home-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	repo := p.address(round)
	if !strings.HasPrefix(repo, "smb:") {
		defer func() { err = errors.Join(err, os.RemoveAll(repo)) }()
	}
	if _, err := b.tidemark(ctx, home, repo, "init", "--quiet"); err != nil {
		return err
	}
	for _, kind := range []string{"first", "unchanged"} {
		took, err := b.tidemark(ctx, home, repo, "backup", "--quiet", "--policy", "important", b.tree)
		if err != nil {
			return err
		}
		if round >= 0 {
			b.record(ofBackups, p.name+", "+kind, round, took)
		}
	}
	return nil
}

// tidemark runs the program and returns how long it took, and how much of a processor.
func (b *bench) tidemark(ctx context.Context, home, repo string, args ...string) (map[string]float64, error) {
	cmd := exec.CommandContext(ctx, b.program, args...)
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+home+"/cache", "XDG_CONFIG_HOME="+home+"/config",
		"TIDEMARK_REPOSITORY="+repo, "TIDEMARK_PASSWORD="+secret, "TIDEMARK_SMB_PASSWORD="+smbtest.Password)
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("tidemark %s to %s: %w\n%s", args[0], repo, err, out)
	}
	state := cmd.ProcessState
	return map[string]float64{
		"seconds": time.Since(began).Seconds(), "cpu": (state.UserTime() + state.SystemTime()).Seconds(),
	}, nil
}
