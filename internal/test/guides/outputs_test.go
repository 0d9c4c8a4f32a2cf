package guides

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// times is how far a number of a document may be from that of this run, in either direction; slower is how much longer
// this run may take, beside other tests.
const (
	times  = 10
	slower = 100
)

// quantity is a number of an output in its base unit, bytes or seconds.
type quantity struct {
	text  string
	value float64
}

// shapeOf returns an output with its IDs, times, paths and numbers masked, and the numbers.
func shapeOf(output string) (shape string, all []quantity) {
	for _, m := range [][2]string{
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S+`, "DATE HOST"}, {`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "DATE"},
		{`\b[0-9a-f]{8}\b`, "ID"}, {`/[^\s:]*`, "PATH"},
		{`(?m), (none|less than .*|[0-9]+ %) of it yielding.*$`, ", YIELDING"},
		{`-{3,}`, "---"}, {` +`, " "},
	} {
		output = regexp.MustCompile(m[0]).ReplaceAllString(output, m[1])
	}
	scale := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1e-3, "s": 1,
		"min": 60}
	kind := map[string]string{"": "N", "B": "SIZE", "KiB": "SIZE", "MiB": "SIZE", "GiB": "SIZE", "ms": "TIME", "s": "TIME",
		"min": "TIME"}
	number := regexp.MustCompile(`([0-9][0-9,]*(?:\.[0-9]+)?)(?: (B|KiB|MiB|GiB|ms|s|min)\b)?`)
	return number.ReplaceAllStringFunc(output, func(text string) string {
		part := number.FindStringSubmatch(text)
		value, _ := strconv.ParseFloat(strings.ReplaceAll(part[1], ",", ""), 64)
		all = append(all, quantity{text, value * scale[part[2]]})
		return kind[part[2]]
	}), all
}

// contradiction says what of a documented output cannot be an output of this run.
func contradiction(documented, real string) string {
	want, numbers := shapeOf(documented)
	shape, measured := shapeOf(real)
	if want != shape {
		return fmt.Sprintf("the document has\n%s\nthe program prints\n%s", want, shape)
	}
	for i, n := range numbers {
		most := float64(times)
		if strings.HasSuffix(n.text, "s") || strings.HasSuffix(n.text, "min") {
			most = slower
		}
		if m := measured[i]; n.value > times*m.value || m.value > most*n.value {
			return fmt.Sprintf("the document says %s, the program %s", n.text, m.text)
		}
	}
	return ""
}

// TestOutputsOfTheReadme runs the commands of the README in a clone, and compares what they print.
func TestOutputsOfTheReadme(t *testing.T) {
	testkit.Slow(t)
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("needs a clone of the repository")
	}
	readme := read(t, "README.md")
	m := &machine{dir: t.TempDir()}
	clone := filepath.Join(m.dir, "home", "tidemark")
	require.NoError(t, os.MkdirAll(filepath.Dir(clone), 0o700))
	out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--no-local", root, clone).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, c := range []struct{ name, command string }{
		{"backup", "tidemark backup ."}, {"snapshots", "tidemark snapshots"},
		{"restore", "tidemark restore latest --target /tmp/restored"}, {"versions", "tidemark versions README.md"},
	} {
		require.Contains(t, readme, strings.Replace(c.command, "tidemark backup", "go run ./cmd/tidemark backup", 1))
		block := regexp.MustCompile("(?s)```output " + c.name + "\n(.*?)```").FindStringSubmatch(readme)
		require.NotNil(t, block, c.name)
		printed := m.must(t, "cd tidemark && "+c.command+" 2>&-")
		if c.name == "backup" { // the first run says first where the repository and the key are
			_, printed, _ = strings.Cut(printed, "\nsnapshot ")
			printed = "snapshot " + printed
		}
		require.Empty(t, contradiction(block[1], printed), c.name)
	}
}

// TestContradictions: what the README once said.
func TestContradictions(t *testing.T) {
	const real = "files:  1,795 new, 0 changed\ntime:   0.8 s, 3 % of it yielding to fio on sda (ssd)\n"
	for documented, want := range map[string]string{
		"files:  2,138 new, 0 changed\ntime:   90 ms, none of it yielding\n": "",
		"files:  8 new, 0 changed\ntime:   0.7 s, none of it yielding\n":     "says 8, the program 1,795",
		"files:  1,700 new, 0 changed\ntime:   16 s, none of it yielding\n":  "says 16 s, the program 0.8 s",
		"files:  1,700 new, 1 changed\ntime:   1 s, none of it yielding\n":   "says 1, the program 0",
		"files:  1,700 new\ntime:   0.8 s, none of it yielding\n":            "the program prints",
		"files:  1,700 new, 0 changed\ntime:   0.8 MiB\n":                    "the program prints",
	} {
		if got := contradiction(documented, real); want == "" {
			require.Empty(t, got)
		} else {
			require.Contains(t, got, want)
		}
	}
}
