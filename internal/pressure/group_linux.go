package pressure

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/kernelfile"
	"github.com/tidemark-backup/tidemark/internal/pressure/others"
)

// family is how many descendants are looked for at most.
const family = 256

// group is the control group of this process, where it is alone in it: then the kernel counts its I/O by device, as
// submitted, and late writes of its pages as well, so that other devices need no proof and nothing is pending.
type group struct {
	*disks
	io     *os.File
	number string // of the disk: "8:0"
	buf    []byte
}

// openGroup returns a source that counts own I/O by control group; nil where that is not exact.
func openGroup(d *disks, opt Options, procs, cgroups string) *group {
	if len(opt.Stats) != 1 {
		return nil
	}
	disk := filepath.Dir(opt.Stats[0])
	text, err := kernelfile.Read(filepath.Join(disk, "dev"))
	if err != nil {
		return nil
	}
	// A device on top of the disk counts for itself: what went through it is not under the number of the disk.
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

// ownGroup returns the folder of the control group of this process, if it is below the root, counts I/O and memory (or
// late writes are put down to others), and holds only this process and its descendants.
func ownGroup(procs, cgroups string) string {
	text, err := kernelfile.Read(filepath.Join(procs, "self/cgroup"))
	if err != nil {
		return ""
	}
	var dir string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && name != "/" && !strings.HasSuffix(name, " (deleted)") {
			dir = filepath.Join(cgroups, name)
		}
	}
	if dir == "" {
		return ""
	}
	on, err := kernelfile.Read(filepath.Join(dir, "cgroup.controllers"))
	if words := strings.Fields(string(on)); err != nil || !slices.Contains(words, "io") || !slices.Contains(words, "memory") {
		return ""
	}
	members, err := kernelfile.Read(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return ""
	}
	own := []int{os.Getpid()}
	for i := 0; i < len(own) && len(own) <= family; i++ {
		own = others.Children(own[i], own)
	}
	for _, m := range strings.Fields(string(members)) {
		if pid, err := strconv.Atoi(m); err != nil || !slices.Contains(own, pid) {
			return ""
		}
	}
	return dir
}

func (g *group) own() tally {
	t := g.disks.own()
	t.read, t.dirtied = 0, 0
	n, _ := readFull(g.io, g.buf)
	if n == len(g.buf) {
		g.buf = make([]byte, 2*len(g.buf))
		return g.own()
	}
	t.read, t.dirtied = parseGroup(g.buf[:n], g.number)
	return t
}

// cancelled is nothing: what was dropped has not been counted.
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
	v, _ := number(digits)
	return v
}
