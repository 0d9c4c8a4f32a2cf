package sysinfo

import (
	"io/fs"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// UsableCPUs returns on how many processors the calling thread may run now; runtime.NumCPU is how many there were at
// the start.
func UsableCPUs() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil || set.Count() == 0 {
		return runtime.NumCPU()
	}
	return set.Count()
}

// quota reads the quota of the control groups that this process is in.
func quota() (limit float64, limited bool) { return quotaIn(host{}) }

// host is the tree of this machine.
type host struct{}

// Open is not used: fs.ReadFile reads by ReadFile.
func (host) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

// ReadFile reads a file, by its path without the leading slash.
func (host) ReadFile(name string) ([]byte, error) { return ReadFile("/" + name) }

// quotaIn returns the smallest quota of this process's control group and of the groups around it. root has /proc and
// the mounts of control groups. A file that cannot be read sets no limit here; the kernel still enforces it.
func quotaIn(root fs.FS) (limit float64, limited bool) {
	groups := read(root, "proc/self/cgroup")
	for line := range strings.Lines(read(root, "proc/self/mountinfo")) {
		dir, top, ok := group(line, groups)
		for ; ok; dir = path.Dir(dir) {
			if n, found := ofGroup(root, dir); found && (!limited || n < limit) {
				limit, limited = n, true
			}
			ok = within(dir, top) && dir != top
		}
	}
	return limit, limited
}

// group returns the folder of this process's group in a mount of control groups, and the folder of the mount, both
// without the leading slash. Lines of mountinfo have the number, the parent, the device, the root within the file
// system, the folder, options, a dash after some more, and then type, source and options of the file system.
func group(mount, groups string) (dir, top string, ok bool) {
	before, after, _ := strings.Cut(mount, " - ")
	at, of := strings.Fields(before), strings.Fields(after)
	if len(at) < 5 || len(of) < 3 {
		return "", "", false
	}
	var controller string
	switch {
	case of[0] == "cgroup2":
	case of[0] == "cgroup" && listed(of[2], "cpu"):
		controller = "cpu"
	default:
		return "", "", false
	}
	for line := range strings.Lines(groups) { // number:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || controller == "" && parts[0]+parts[1] != "0" || controller != "" &&
			!listed(parts[1], controller) {
			continue
		}
		top = strings.TrimPrefix(UnescapeMount(at[4]), "/")
		root, own := UnescapeMount(at[3]), parts[2]
		if !within(own, root) {
			return top, top, true // a container sees its own group as the root, wherever that is
		}
		return path.Join(top, strings.TrimPrefix(own, root)), top, true
	}
	return "", "", false
}

// ofGroup reads the quota of one group: "40000 100000" are microseconds of processors in each period, "max" and -1
// none.
func ofGroup(root fs.FS, dir string) (limit float64, found bool) {
	if both := strings.Fields(read(root, path.Join(dir, "cpu.max"))); len(both) == 2 {
		return ratio(both[0], both[1])
	}
	return ratio(read(root, path.Join(dir, "cpu.cfs_quota_us")), read(root, path.Join(dir, "cpu.cfs_period_us")))
}

func ratio(quota, period string) (limit float64, found bool) {
	q, err := strconv.ParseFloat(strings.TrimSpace(quota), 64)
	if err != nil || q <= 0 {
		return 0, false
	}
	p, err := strconv.ParseFloat(strings.TrimSpace(period), 64)
	if err != nil || p <= 0 {
		return 0, false
	}
	return q / p, true
}

func listed(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// within reports whether a folder is another one or lies below it.
func within(dir, top string) bool {
	return dir == top || top == "/" || strings.HasPrefix(dir, strings.TrimSuffix(top, "/")+"/")
}

// UnescapeMount decodes the escapes of mountinfo for spaces and the like: a backslash and three octal digits.
func UnescapeMount(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// read returns a small file of the kernel, or nothing.
func read(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return string(text)
}
