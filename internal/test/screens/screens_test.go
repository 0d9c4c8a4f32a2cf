// Package screens tests what a person sees in a terminal. tmux is the terminal, and capture.sh the person.
package screens

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// TestScreens captures the screens at two sizes. TIDEMARK_SCREENS names a folder that keeps them. A screen of a running
// backup exists for seconds only, and a busy machine misses it, so `make screens` runs this, and not each test run.
func TestScreens(t *testing.T) {
	keep := os.Getenv("TIDEMARK_SCREENS")
	if keep == "" {
		t.Skip("depends on the speed of the machine: 'make screens' runs it")
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	program := build(t)
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		width, height := strconv.Itoa(size[0]), strconv.Itoa(size[1])
		folder := filepath.Join(keep, width+"x"+height)
		out, err := exec.CommandContext(t.Context(), "./capture.sh", program, folder, width, height).CombinedOutput()
		require.NoError(t, err, "%s", out)
		s := screens{t, folder, size[0]}
		s.running()
		s.ended()
		s.others()
		s.documents()
	}
}

type screens struct {
	t      *testing.T
	folder string
	width  int
}

// lines returns the lines of a screen without the empty ones at its end.
func (s screens) lines(name string) []string {
	text, err := os.ReadFile(filepath.Join(s.folder, name+".txt"))
	require.NoError(s.t, err)
	return strings.Split(strings.TrimRight(string(text), "\n "), "\n")
}

// running: what there is to see while a job runs.
func (s screens) running() {
	first := strings.Join(s.lines("first-running"), "\n")
	require.Regexp(s.t, `(?m)^(backing up|waiting for uploads), (~|at most )?[0-9.]+ % done, `+
		`(about|more than) .* left, 00:00:\d\d elapsed$`, first)
	require.Regexp(s.t, `(?m)^read .*/s now`, first)
	require.Regexp(s.t, `(?m)^[a-z].*; limited to 120.00 KiB/s up$`, first)
	require.Equal(s.t, 1, strings.Count(first, "elapsed"), "one frame is on the screen")
	require.Equal(s.t, 1, strings.Count(strings.Join(s.lines("resized-running"), "\n"), " % done"), "one frame")
	yielding := strings.Join(s.lines("yielding"), "\n")
	require.Regexp(s.t, `(?m)^yielding to .+ on .+, (.*/s meanwhile|asleep .*%)`, yielding)
	require.Regexp(s.t, `(?m)^  to go faster now: tidemark tier set important --pid \d+$`, yielding)
}

// ended: a job leaves at most eight lines, and none of its frames, on the screen or in the scrollback.
func (s screens) ended() {
	for _, name := range []string{"first", "unchanged", "resized"} {
		lines := s.lines(name)
		text := strings.Join(lines, "\n")
		require.NotContains(s.t, text, "elapsed", name)
		require.NotContains(s.t, text, " left", name)
		if name != "resized" {
			require.LessOrEqual(s.t, len(lines), 8+2, "%s: the report between two prompts:\n%s", name, text)
		}
		require.Regexp(s.t, `(?m)^snapshot [0-9a-f]{8} saved$`, text)
		require.Regexp(s.t, `(?m)^time: `, text)
	}
}

// others: errors say what to do, and no line of text is wider than the screen.
func (s screens) others() {
	require.Regexp(s.t, `(?m)^tidemark: `, strings.Join(s.lines("error"), "\n"))
	for _, name := range []string{"first-running", "first", "unchanged", "resized", "yielding"} {
		for _, line := range s.lines(name) {
			require.LessOrEqual(s.t, human.Columns(line), s.width, name)
		}
	}
}
