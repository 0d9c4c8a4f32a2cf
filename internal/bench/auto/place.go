package auto

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// The rates of the slow resources.
const (
	lineRate   = 24e6 // bits per second
	sourceRate = 20e6 // bytes per second
	sourceOps  = 600  // reads per second
	period     = 100000
)

// place is where backups run, with one slow resource.
type place struct {
	tree   string
	folder string // where repositories are made
	share  string // its address, if it is on a share
	groups []string
	device string // of the tree, to be forgotten before each backup; "": the tree is in memory
	mount  string
}

// places are the words for what may be slow.
func places() []string {
	return []string{"target", "processors-0.4", "processors-1", "source-rate", "source-iops"}
}

func (b *bench) place(ctx context.Context, slow string) (*place, error) {
	p := &place{tree: b.tree, folder: b.scratch}
	switch slow {
	case "target":
		return p, b.slowLine(p)
	case "source-rate":
		return p, b.slowDisk(ctx, p, "read_bps_device", "rbps", sourceRate)
	case "source-iops":
		return p, b.slowDisk(ctx, p, "read_iops_device", "riops", sourceOps)
	}
	share, err := strconv.ParseFloat(strings.TrimPrefix(slow, "processors-"), 64)
	if err != nil {
		return nil, err
	}
	quota := strconv.Itoa(int(share * period))
	return p, b.group(p, "cpu",
		map[string]string{"cpu.cfs_period_us": strconv.Itoa(period), "cpu.cfs_quota_us": quota},
		map[string]string{"cpu.max": quota + " " + strconv.Itoa(period)})
}

// slowLine puts the repositories on a share at the end of a slow line.
func (b *bench) slowLine(p *place) error {
	l := smbtest.NewLine(&b.Host)
	folder, err := os.MkdirTemp(b.scratch, "share-")
	if err != nil {
		return err
	}
	s := smbtest.Start(&b.Host, smbtest.Config{Folder: folder, Line: l})
	l.Limit(lineRate)
	p.folder = folder
	p.share = fmt.Sprintf("smb://%s@%s:%d/%s", s.User, s.Host, s.Port, smbtest.Share)
	return nil
}

// slowDisk copies the tree to a disk of its own, an image whose rate for the program is limited.
func (b *bench) slowDisk(ctx context.Context, p *place, v1, v2 string, limit int) error {
	size, err := treeSize(b.tree)
	if err != nil {
		return err
	}
	image := filepath.Join(b.scratch, "source.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	b.Cleanup(func() { _ = os.Remove(image) })
	if err := os.Truncate(image, (size+size/4)>>20<<20+256<<20); err != nil {
		return err
	}
	if _, err := output(ctx, "mkfs.ext4", "-q", "-F", "-i", "8192", image); err != nil {
		return err
	}
	if p.device, err = output(ctx, "losetup", "--find", "--show", image); err != nil {
		return err
	}
	b.Cleanup(func() { _ = exec.Command("losetup", "--detach", p.device).Run() })
	p.mount = filepath.Join(b.scratch, "source")
	if err := os.Mkdir(p.mount, 0o700); err != nil {
		return err
	}
	if _, err := output(ctx, "mount", "-t", "ext4", p.device, p.mount); err != nil {
		return err
	}
	b.Cleanup(func() { _ = exec.Command("umount", p.mount).Run() })
	p.tree = filepath.Join(p.mount, "tree")
	if _, err := output(ctx, "cp", "-a", b.tree, p.tree); err != nil {
		return err
	}
	text, err := sysinfo.ReadFile(filepath.Join("/sys/block", filepath.Base(p.device), "dev"))
	if err != nil {
		return err
	}
	number := strings.TrimSpace(string(text))
	return b.group(p, "blkio", map[string]string{"blkio.throttle." + v1: fmt.Sprintf("%s %d", number, limit)},
		map[string]string{"io.max": fmt.Sprintf("%s %s=%d", number, v2, limit)})
}

// group makes a control group for the backups: of version 1 if its controller is there, otherwise of version 2.
func (b *bench) group(p *place, controller string, v1, v2 map[string]string) error {
	write, top := v1, "/sys/fs/cgroup/"+controller
	if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err != nil {
		write, top = v2, "/sys/fs/cgroup"
		word := map[string]string{"cpu": "+cpu", "blkio": "+io"}[controller]
		if err := os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte(word), 0o644); err != nil {
			return fmt.Errorf("ask for the controller of %s: %w", controller, err)
		}
	}
	dir, err := os.MkdirTemp(top, "tunebench-")
	if err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	b.Cleanup(func() { _ = os.Remove(dir) })
	for name, text := range write {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("bound a control group: %w", err)
		}
	}
	p.groups = append(p.groups, filepath.Join(dir, "cgroup.procs"))
	return nil
}

// ready brings the caches into the same state before each backup: the whole tree, or no block of its disk.
func (p *place) ready(ctx context.Context) error {
	if p.device == "" {
		return filepath.WalkDir(p.tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			_, err = os.ReadFile(path)
			return errors.Join(err, ctx.Err())
		})
	}
	if _, err := output(ctx, "umount", p.mount); err != nil {
		return err
	}
	_, err := output(ctx, "mount", "-t", "ext4", p.device, p.mount)
	return err
}

// command is one that joins the groups before it becomes the program.
func (p *place) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	const join = `n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit 1; shift; n=$((n-1)); done; exec "$@"`
	all := append([]string{"-c", join, "sh", strconv.Itoa(len(p.groups))}, p.groups...)
	return exec.CommandContext(ctx, "sh", append(append(all, program), args...)...)
}

func treeSize(tree string) (size int64, err error) {
	err = filepath.WalkDir(tree, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		size += info.Size() + 4096
		return nil
	})
	return size, err
}

// output runs a program, and returns its standard output without warnings.
func output(ctx context.Context, program string, args ...string) (string, error) {
	var wrong strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, wrong.String())
	}
	return strings.TrimSpace(string(out)), nil
}
