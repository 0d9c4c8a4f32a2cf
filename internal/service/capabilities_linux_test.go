package service_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/service"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// TestTheServiceMayDoWhatItsJobsNeed backs up files of one user into the repository of another, with the capabilities
// of the unit, and with one less.
func TestTheServiceMayDoWhatItsJobsNeed(t *testing.T) {
	testkit.Slow(t)
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and setpriv")
	}
	dir := testkit.RamDir(t)
	program := filepath.Join(t.TempDir(), "tidemark") // in the memory, no program may be allowed
	testkit.Build(t, "tidemark", program)
	source, repo, file := filepath.Join(dir, "source"), filepath.Join(dir, "repo"), filepath.Join(dir, "source/file")
	run := func(capabilities []string, args ...string) (string, error) {
		set := "-all"
		for _, c := range capabilities {
			set += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
		}
		limits := []string{"--bounding-set", set, "--inh-caps", "-all", program}
		c := exec.CommandContext(t.Context(), "setpriv", append(limits, args...)...)
		c.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TIDEMARK_REPOSITORY=" + repo,
			"TIDEMARK_POLICY=important"}
		out, err := c.CombinedOutput()
		t.Logf("%s: %v\n%s", set, err, out)
		return string(out), err
	}
	text := unit(t, service.Config{System: true, Program: program, OptionFile: "/etc/x", Removable: true})
	all := strings.Fields(regexp.MustCompile(`CapabilityBoundingSet=(.*)`).FindStringSubmatch(text)[1])
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	again := func() {
		require.NoError(t, os.RemoveAll(source))
		require.NoError(t, os.MkdirAll(source, 0o700))
		require.NoError(t, os.WriteFile(file, testkit.Noise(uint64(time.Now().UnixNano()), 1<<20), 0o600))
		require.NoError(t, os.Chtimes(file, old, old))
		require.NoError(t, os.Chown(file, 1001, 1001))
		require.NoError(t, os.Chown(source, 1001, 1001))
	}
	accessed := func() time.Time {
		info, err := os.Stat(file)
		require.NoError(t, err)
		at := info.Sys().(*syscall.Stat_t).Atim
		return time.Unix(at.Sec, at.Nsec)
	}
	again()
	_, err := run(all, "init")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(repo, func(path string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Chown(path, 1002, 1002)
	}))
	noted, err := run(all, "backup", source)
	require.NoError(t, err)
	require.Contains(t, noted, "attributes trusted.* are left out")
	require.Equal(t, old, accessed(), "the backup changes access times")
	without := func(c string) (left []string) {
		for _, other := range all {
			if other != c {
				left = append(left, other)
			}
		}
		require.Len(t, left, len(all)-1)
		return left
	}
	again()
	_, err = run(without("CAP_DAC_OVERRIDE"), "backup", source)
	require.Error(t, err, "into the repository of a user")
	again()
	_, err = run(without("CAP_FOWNER"), "backup", source)
	require.NoError(t, err)
	require.NotEqual(t, old, accessed(), "access times of files of others")
}
