package foreign

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// family bounds the descendants that are searched.
const family = 256

// group is the control group of this process, if the process is alone in it. The kernel counts its I/O by device at
// submission, late writes included, so other devices need no proof and nothing is pending.
type group struct {
	*disks
	io     *os.File
	number string // of the disk: "8:0"
	buf    []byte
}

// openGroup returns a source with the counters of the control group; nil where they are not exact.
func openGroup(d *disks, opt Options, procs, cgroups string) *group {
	if len(opt.Stats) != 1 {
		return nil
	}
	disk := filepath.Dir(opt.Stats[0])
	text, err := sysinfo.ReadFile(filepath.Join(disk, "dev"))
	if err != nil {
		return nil
	}
	// I/O through a device on top of the disk is not counted under the number of the disk.
	if above, err := os.ReadDir(filepath.Join(disk, "holders")); err != nil || len(above) > 0 {
		return nil
	}
	dir := ownGroup(procs, cgroups)
	if dir == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, "io.stat"))
	if err != nil {
		return nil
	}
	return &group{disks: d, io: f, number: strings.TrimSpace(string(text)) + " ", buf: make([]byte, 4096)}
}

// ownGroup returns the directory of the control group of this process, if it is below the root, counts I/O and memory
// (without which late writes belong to others), and holds only this process and its descendants.
func ownGroup(procs, cgroups string) string {
	text, err := sysinfo.ReadFile(filepath.Join(procs, "self/cgroup"))
	if err != nil {
		return ""
	}
	var dir string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && name != "/" &&
			!strings.HasSuffix(name, " (deleted)") {
			dir = filepath.Join(cgroups, name)
		}
	}
	if dir == "" {
		return ""
	}
	on, err := sysinfo.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if words := strings.Fields(string(on)); err != nil || !slices.Contains(words, "io") ||
		!slices.Contains(words, "memory") {
		return ""
	}
	members, err := sysinfo.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return ""
	}
	own := []int{os.Getpid()}
	for i := 0; i < len(own) && len(own) <= family; i++ {
		own = children(own[i], own)
	}
	for _, m := range strings.Fields(string(members)) {
		if pid, err := strconv.Atoi(m); err != nil || !slices.Contains(own, pid) {
			return ""
		}
	}
	return dir
}

func (g *group) own() diskwatch.Process {
	t := g.disks.own()
	t.Read, t.Dirtied = 0, 0
	n, _ := readFull(g.io, g.buf)
	if n == len(g.buf) {
		g.buf = make([]byte, 2*len(g.buf))
		return g.own()
	}
	t.Read, t.Dirtied = parseGroup(g.buf[:n], g.number)
	return t
}

// cancelled is 0: the group counts no dropped bytes.
func (g *group) cancelled() uint64 { return 0 }

func (g *group) close() {
	g.io.Close()
	g.disks.close()
}

// parseGroup finds the bytes of one device in io.stat. A device that was not used yet has no line.
func parseGroup(text []byte, number string) (read, written uint64) {
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(number))
		if !ok {
			continue
		}
		for field := range bytes.FieldsSeq(rest) {
			read += value(field, "rbytes=")
			written += value(field, "wbytes=")
		}
	}
	return read, written
}

// value returns the number of a field that begins with name.
func value(field []byte, name string) uint64 {
	digits, ok := bytes.CutPrefix(field, []byte(name))
	if !ok {
		return 0
	}
	v, _ := diskwatch.Number(digits)
	return v
}
