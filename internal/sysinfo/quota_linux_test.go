package sysinfo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUsableFollowsTheThread: processors that a thread is kept off later do not count.
func TestUsableFollowsTheThread(t *testing.T) {
	done := make(chan [2]int)
	go func() {
		runtime.LockOSThread() // without an unlock: the thread ends with the goroutine
		var one unix.CPUSet
		all := UsableCPUs()
		var set unix.CPUSet
		if unix.SchedGetaffinity(0, &set) == nil {
			for i := 0; one.Count() == 0; i++ {
				if set.IsSet(i) {
					one.Set(i)
				}
			}
		}
		if unix.SchedSetaffinity(0, &one) != nil {
			close(done)
			return
		}
		done <- [2]int{all, UsableCPUs()}
	}()
	got, ok := <-done
	require.True(t, ok)
	require.Equal(t, [2]int{runtime.NumCPU(), 1}, got)
}

func TestQuota(t *testing.T) {
	const (
		v2      = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		v1      = "25 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n"
		v1other = "26 24 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
		bound   = "25 24 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
		spaces  = "30 24 0:26 / /mnt/control\\040groups rw - cgroup2 none rw\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		files                map[string]string
		want                 float64 // 0: none
	}{
		{"none", "0::/\n", v2, nil, 0},
		{"of the group", "0::/a.slice/b\n", v2, map[string]string{"sys/fs/cgroup/a.slice/b/cpu.max": "40000 100000\n"}, 0.4},
		{
			"of the one around it", "0::/a.slice/b\n", v2,
			map[string]string{"sys/fs/cgroup/a.slice/cpu.max": "150000 100000\n",
				"sys/fs/cgroup/a.slice/b/cpu.max": "max 100000\n"}, 1.5,
		},
		{
			"the smallest", "0::/a/b/c\n", v2,
			map[string]string{"sys/fs/cgroup/a/cpu.max": "20000 10000\n", "sys/fs/cgroup/a/b/cpu.max": "9000 10000",
				"sys/fs/cgroup/a/b/c/cpu.max": "30000 10000"}, 0.9,
		},
		{"of others", "0::/a\n", v2, map[string]string{"sys/fs/cgroup/b/cpu.max": "10000 100000\n"}, 0},
		{
			"version 1", "4:cpu,cpuacct:/x\n3:cpuset:/y\n0::/\n", v1other + v1 + v2,
			map[string]string{"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "100000\n",
				"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "50000\n"}, 2,
		},
		{
			"version 1 without a quota", "4:cpu,cpuacct:/x\n", v1,
			map[string]string{"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "-1\n",
				"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"}, 0,
		},
		{
			"a container, whose group is the root of the mount", "4:cpu:/docker/abc\n", bound,
			map[string]string{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
				"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0.5,
		},
		{
			"a container that sees the group outside", "4:cpu:/\n", bound,
			map[string]string{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
				"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0.5,
		},
		{"a mount with spaces", "0::/a\n", spaces, map[string]string{"mnt/control groups/a/cpu.max": "70000 100000\n"}, 0.7},
		{"damage", "0::/a\nx\n::\n", "1 2\n - \n- cgroup2\n" + v2, map[string]string{"sys/fs/cgroup/a/cpu.max": "a lot\n"},
			0},
		{"a period of nothing", "0::/a\n", v2, map[string]string{"sys/fs/cgroup/a/cpu.max": "1 0\n"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{
				"proc/self/cgroup": {Data: []byte(c.groups)}, "proc/self/mountinfo": {Data: []byte(c.mounts)},
			}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			limit, limited := quotaIn(root)
			require.Equal(t, c.want > 0, limited)
			require.InDelta(t, c.want, limit, 1e-9)
		})
	}
	_, limited := quotaIn(fstest.MapFS{})
	require.False(t, limited, "no /proc")
}

// TestQuotaOfTheKernel makes a group with a quota and asks from within it.
func TestQuotaOfTheKernel(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_QUOTA") != "" {
		fmt.Println("allowed:", AllowedCPUs())
		return
	}
	dir, write := makeGroup(t)
	for name, text := range write {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	cmd := exec.Command("sh", "-c", `echo $$ > "$1" && exec "$2" -test.run 'TestQuotaOfTheKernel$' -test.v`, "sh",
		filepath.Join(dir, "cgroup.procs"), os.Args[0])
	cmd.Env = append(os.Environ(), "TIDEMARK_TEST_QUOTA=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "allowed: 0.3\n")
}

// makeGroup makes a control group of this test's own, and returns which files give it a quota of 0.3 processors.
func makeGroup(t *testing.T) (dir string, write map[string]string) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a control group")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		at, of := strings.Fields(before), strings.Fields(after)
		if len(at) < 5 || len(of) < 3 {
			continue
		}
		top := UnescapeMount(at[4])
		controllers, _ := os.ReadFile(filepath.Join(top, "cgroup.subtree_control"))
		switch {
		case of[0] == "cgroup2" && strings.Contains(" "+strings.TrimSpace(string(controllers))+" ", " cpu "):
			write = map[string]string{"cpu.max": "30000 100000"}
		case of[0] == "cgroup" && listed(of[2], "cpu"):
			write = map[string]string{"cpu.cfs_quota_us": "30000"}
		default:
			continue
		}
		dir, err = os.MkdirTemp(top, "tidemark-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		return dir, write
	}
	t.Skip("needs a control group for processors that may be written to")
	return "", nil
}

func TestUnescapeMount(t *testing.T) {
	for in, want := range map[string]string{
		``: ``, `a\040b`: `a b`, `\134`: `\`, `\09x`: `\09x`, `x\04`: `x\04`, `\777`: `\777`, `a\054\072`: "a,:",
	} {
		require.Equal(t, want, UnescapeMount(in), in)
	}
}
