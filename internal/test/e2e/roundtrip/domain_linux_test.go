package roundtrip

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// A backup by DOMAIN has each of its file systems, nested or not, and of others mounted below only the mount point.
// What DOMAIN leaves out is missing.
func TestDomainHasItsFileSystems(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	base := t.TempDir()
	root, home := filepath.Join(base, "root"), filepath.Join(base, "home")
	for _, fs := range []string{"", "in", "in/deep", "other", "out", "other/between"} {
		dir := filepath.Join(root, fs)
		testkit.MountMemory(t, dir, "1m")
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(fs), 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	}
	at := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	file := filepath.Join(base, "dsm.opt")
	require.NoError(t, os.WriteFile(file,
		[]byte("REPOSITORY "+base+"/repository\nDOMAIN "+root+" "+at("in", "deep")+" "+at("in")+
			" "+at("other", "between")+"\nDOMAIN -"+at("out")+"\n"), 0o600))
	// Another policy would lower the processor priority of this process for good.
	env := map[string]string{"HOME": home, "TIDEMARK_POLICY": "important"}
	run := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		code := cli.Run(context.Background(), cli.Process{Args: append(args, "--option-file="+file), Out: &out, Err: &errs,
			Env: func(name string) (string, bool) { value, ok := env[name]; return value, ok }})
		return out.String() + errs.String(), code
	}
	for _, command := range [][]string{{"backup", "--init"}, {"dsmc", "incremental"}} {
		text, code := run(command...)
		require.Zero(t, code, text)
		listing, code := run("ls", "-R", "latest")
		require.Zero(t, code, listing)
		for _, path := range []string{at("file"), at("in", "file"), at("in", "deep", "file"), at("folder"), at("other"),
			at("other", "between", "file")} {
			require.Contains(t, listing, path+"\n")
		}
		for _, path := range []string{at("out"), at("out", "file")} {
			require.NotContains(t, listing, path+"\n")
		}
	}
	// A path of its own is backed up with what is mounted in it; dsmc leaves that out.
	text, code := run("backup", at("other"), at("out"))
	require.Zero(t, code, text)
	listing, _ := run("ls", "-R", "latest")
	require.Contains(t, listing, at("other", "between", "file")+"\n")
	require.Contains(t, listing, at("out", "file")+"\n")
	text, code = run("dsmc", "i", at("other")+"/")
	require.Zero(t, code, text)
	listing, _ = run("ls", "-R", "latest")
	require.NotContains(t, listing, at("other", "between", "file")+"\n")
	require.Contains(t, listing, at("other", "between")+"\n", "the mount point is kept")
	require.Equal(t, 1, strings.Count(listing, at("other", "file")+"\n"))
}
