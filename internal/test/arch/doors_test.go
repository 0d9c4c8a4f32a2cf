package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// exception lets a folder name files by itself, for a reason.
type exception struct {
	folder string
	calls  []string // "os.Open"; nil: whatever it likes
	reason string
}

// exceptions are the two doors, and the few places where what lies on this machine is neither source nor repository.
func exceptions() []exception {
	return []exception{
		{"internal/localfs", nil, "door 1: sources and targets of a restore"},
		{"internal/store/local", nil, "door 2: the files of a repository"},
		{
			"internal/repo/cachefile", []string{"os.MkdirAll", "os.Remove", "os.CreateTemp", "os.OpenFile", "os.Lstat",
				"os.Rename"},
			"the files of the local caches, which may vanish at any time; each call passes the gate",
		},
		{
			"internal/repo/dircache", []string{"os.Remove", "os.RemoveAll", "os.ReadDir"},
			"the names of the files of the directory cache; their content passes through internal/repo/cachefile",
		},
		{
			"internal/repo/index", []string{"os.MkdirAll", "os.Remove", "os.RemoveAll", "os.OpenFile", "os.Lstat", "os.ReadDir"},
			"the names of the runs of the local cache; their content passes through internal/repo/cachefile",
		},
		{"internal/store/smb/session", []string{"os.Lstat", "os.MkdirAll", "os.OpenFile", "os.Remove"},
			"empty files in the cache folder remember the versions of servers, at most once per run"},
		{"internal/store/sftp", []string{"os.Remove", "os.CreateTemp", "os.MkdirTemp", "os.RemoveAll", "os.ReadFile"},
			"the socket and the messages of ssh, in a private temporary folder, and the user's keys where there is no ssh"},
		{"internal/store/location", []string{"os.Lstat"}, "distinguishes a local folder from the address of a share"},
		{"internal/repo/treecache", nil, "copies of sealed frames on this machine, which may vanish at any time"},
		{
			"internal/throttle/device", []string{"os.ReadDir", "os.Stat", "filepath.EvalSymlinks"},
			"reads sysfs and the mount table",
		},
		{
			"internal/throttle/foreign", []string{"os.Open", "os.ReadFile", "os.ReadDir", "unix.Open", "unix.Stat",
				"unix.Statx"},
			"reads the kernel's counters in /proc and /sys, on which devices open files are, and when a terminal was last used",
		},
		{
			"pkg/iopolicy/diskwatch", []string{"os.Open", "os.ReadFile", "os.Stat", "unix.Stat", "filepath.EvalSymlinks"},
			"reads the kernel's counters of disks",
		},
		{
			"internal/throttle", []string{"os.OpenFile", "os.CreateTemp", "os.Rename", "os.Remove"},
			"records in the cache folder which media the disks are, at most once per run",
		},
		{"internal/sysinfo", []string{"unix.Open"}, "reads the small files of /proc and /sys for who asks about the machine"},
		{
			"internal/throttle/priority", []string{"os.ReadDir", "os.WriteFile", "unix.Open"},
			"lists threads and sets the session's nice value in /proc, and asks the terminal who is in front",
		},
		{
			"internal/control", []string{"os.MkdirAll", "os.Lstat", "os.ReadDir", "os.Chmod", "os.Rename", "os.Remove",
				"os.Open", "os.ReadFile"},
			"sockets of running jobs, in the runtime directory, which is memory, the lock of the service, and its process",
		},
		{
			"internal/target", []string{"os.ReadFile", "os.MkdirAll", "os.WriteFile"},
			"remembers the last probe in a file of the cache folder",
		},
		{"internal/repo/caches", nil, "lists and removes the cache folders of this machine"},
		{"internal/repo/snapcache", []string{"os.MkdirAll", "os.OpenFile", "os.Remove", "os.Rename", "os.ReadDir"},
			"a small record, and copies of snapshots, which pass the gate of the cache folder"},
		{
			"internal/repo/writerlock", []string{"os.MkdirAll", "os.OpenFile", "os.ReadDir", "os.Remove", "os.Readlink"},
			"locks a file in the cache folder, so that a prune knows which writers of this machine are over",
		},
		{
			"internal/restore", []string{"os.MkdirAll", "os.Lstat", "filepath.EvalSymlinks"},
			"makes the target, parents included, before door 1 can open it, and first looks for a repository there",
		},
		{
			"pkg/iopolicy/shared", []string{
				"os.ReadFile", "unix.Mkdir", "unix.Open", "unix.Openat", "unix.Unlinkat", "unix.Renameat", "unix.Lstat",
				"unix.Stat",
			},
			"maps files of the runtime directory, which is memory, and asks procfs who lives",
		},
		{
			"internal/proofs", []string{"os.Open", "os.ReadFile", "os.MkdirAll", "os.CreateTemp", "os.Rename", "os.Remove"},
			"one small file in the cache folder, read and replaced once a check",
		},
		{
			"internal/drill", []string{"os.MkdirTemp", "os.RemoveAll", "os.Chmod", "filepath.WalkDir"},
			"makes and removes the folder of a restore drill; what is restored goes through door 1",
		},
		{"internal/manual", []string{"os.MkdirAll"}, "makes the folder of the man pages"},
		{
			"internal/setup", []string{
				"os.Stat", "os.Lstat", "os.ReadDir", "os.OpenFile", "os.MkdirAll", "os.Remove", "filepath.EvalSymlinks",
			},
			"looks at mounted disks and their labels before there is a job, and writes the file of a recovery key",
		},
		{
			"internal/options/optionfile", []string{
				"os.Stat", "os.ReadFile", "os.OpenFile", "os.MkdirAll", "os.CreateTemp", "os.Rename", "os.Remove",
				"filepath.EvalSymlinks",
			},
			"replaces the option file, and locks its folder meanwhile",
		},
		{"internal/record", nil, "the service's record, in its state folder"},
		{"internal/daemon", nil, "what the service remembers, in its state folder, and its socket in the runtime directory"},
		{"internal/machinestate", nil, "reads /proc and /sys"},
		{"internal/service", nil, "writes the units of systemd and launchd"},
		{"internal/notify", nil, "reads a password file, and keeps messages in the state folder until they arrive"},
		{"internal/hook", nil, "looks at who may write a command before it is run"},
		{"internal/job", []string{"filepath.EvalSymlinks"}, "compares the repositories of two jobs"},
		{"internal/sourcesnap", nil, "makes and removes snapshots of file systems"},
		{
			"internal/scope", []string{"os.ReadDir", "os.ReadFile", "filepath.EvalSymlinks"},
			"reads files of rules, and finds out what a path leads to, before there is a job",
		},
		{"internal/place", nil, "reads password and key files, asks at the terminal, and remembers the keys that it saw"},
		{"internal/cli", nil, "reads option files and lists of paths, before there is a job"},
	}
}

// openers name the functions by which a program reaches files by their name.
func openers() map[string][]string {
	osLike := []string{
		"Open", "OpenFile", "OpenInRoot", "OpenRoot", "Create", "CreateTemp", "ReadFile", "WriteFile", "ReadDir", "DirFS",
		"CopyFS", "Stat", "Lstat", "Readlink", "Mkdir", "MkdirAll", "MkdirTemp", "Remove", "RemoveAll", "Rename", "Symlink",
		"Link", "Truncate", "Chmod", "Chown", "Lchown", "Chtimes",
	}
	raw := []string{
		"Open", "Openat", "Openat2", "Creat", "Stat", "Lstat", "Statx", "Fstatat", "Mkdir", "Mkdirat", "Mknod", "Mknodat",
		"Unlink", "Unlinkat", "Rename", "Renameat", "Renameat2", "Symlink", "Symlinkat", "Link", "Linkat", "Readlink",
		"Readlinkat", "Truncate", "Rmdir", "Chmod", "Fchmodat", "Chown", "Lchown", "Fchownat",
	}
	return map[string][]string{
		"os":                    osLike,
		"syscall":               raw,
		"golang.org/x/sys/unix": raw,
		"path/filepath":         {"Walk", "WalkDir", "Glob", "EvalSymlinks"},
		"io/ioutil":             {"ReadAll", "ReadDir", "ReadFile", "TempDir", "TempFile", "WriteFile"},
	}
}

// strays finds files that are reached outside the two doors, and unused exceptions.
func strays(files []*file, allowed []exception) []string {
	var out []string
	used := map[string]bool{}
	for _, f := range files {
		if f.test() || within(f.dir(), testFolders()) || within(f.dir(), tools()) {
			continue
		}
		for pkg, names := range openers() {
			alias := f.importName(pkg)
			if alias == "" {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != alias || !slices.Contains(names, sel.Sel.Name) {
					return true
				}
				call := path.Base(pkg) + "." + sel.Sel.Name
				if e := permitting(f.dir(), call, allowed); e != nil {
					used[e.folder] = true
					if e.calls != nil {
						used[e.folder+call] = true
					}
				} else {
					out = append(out, fmt.Sprintf("%s: %s outside the doors", f.at(n.Pos()), call))
				}
				return true
			})
		}
	}
	for _, e := range allowed {
		if !used[e.folder] {
			out = append(out, fmt.Sprintf("%s is excepted (%s) and opens nothing", e.folder, e.reason))
		}
		for _, call := range e.calls {
			if !used[e.folder+call] {
				out = append(out, fmt.Sprintf("%s is excepted for %s and does not use it", e.folder, call))
			}
		}
	}
	return out
}

// permitting returns the exception that lets a folder make a call: one that names the call binds that folder only, one
// that names none the folders below as well.
func permitting(dir, call string, allowed []exception) *exception {
	for i := range allowed {
		e := &allowed[i]
		if e.calls == nil && within(dir, []string{e.folder}) || dir == e.folder && slices.Contains(e.calls, call) {
			return e
		}
	}
	return nil
}

func TestBytesReachADiskThroughTwoDoors(t *testing.T) {
	none(t, strays(goFiles(sources(t), false), exceptions()))
}

func TestDoorLawFindsStrays(t *testing.T) {
	door := []exception{{folder: "internal/localfs", reason: "a door"}, {"internal/repo", []string{"os.Remove"}, "why"}}
	at := func(path, imports, body string) *file {
		return parse(t, path, "package x\nimport "+imports+"\nfunc f() { "+body+" }\n")
	}
	used := []*file{
		at("internal/localfs/deep/x.go", `"os"`, "os.Open(``)"),
		at("internal/repo/x.go", `"os"`, "os.Remove(``)"),
		at("internal/backup/x_test.go", `"os"`, "os.Open(``)"),
		at("internal/backup/y.go", `"os"`, "os.Getpid()"),
	}
	require.Empty(t, strays(used, door))
	for _, f := range []*file{
		at("internal/backup/x.go", `"os"`, "os.Open(``)"),
		at("internal/backup/x.go", `other "os"`, "use(other.ReadFile)"), // handed on instead of called
		at("internal/backup/x.go", `"golang.org/x/sys/unix"`, "unix.Openat(0, ``, 0, 0)"),
		at("internal/repo/x.go", `"os"`, "os.Open(``)"),
		at("internal/repo/object/x.go", `"os"`, "os.Remove(``)"),
		at("internal/backup/scan/x.go", `"path/filepath"`, "filepath.WalkDir(``, nil)"),
	} {
		require.Len(t, strays(append(used[:2:2], f), door), 1, "%s", f.text)
	}
	require.Len(t, strays(nil, door), 3, "exceptions that are not used")
}
