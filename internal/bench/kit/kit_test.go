package kit

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.True(t, math.IsNaN(Median(nil)), "what was not measured is no zero")
	values := []float64{9, 1, 2}
	require.Equal(t, 2.0, Median(values))
	require.Equal(t, []float64{9, 1, 2}, values)
	require.Equal(t, 2.5, Median([]float64{3, 9, 1, 2}))
}

// In a slow round both cases are slow, which the ratio must not show.
func TestRatiosAreTakenRoundByRound(t *testing.T) {
	var s Series
	for round, slow := range []float64{1, 10, 2} {
		s.Add("1", "throttle", round, map[string]float64{"first": 3 * slow})
		s.Add("1", "off", round, map[string]float64{"first": 2 * slow, "none": 0})
	}
	s.Add("1", "off", 3, map[string]float64{"first": 99}) // of a round that throttle had no part in
	s.Add("2", "off", 0, map[string]float64{"first": 77}) // of another measurement
	require.InDelta(t, 1.5, s.Ratio("1", "throttle", "off", "first"), 1e-9)
	require.InDelta(t, 6, s.Value("1", "throttle", "first"), 0)
	require.True(t, math.IsNaN(s.Ratio("1", "throttle", "off", "unchanged")))
	require.True(t, math.IsNaN(s.Ratio("1", "off", "off", "none")), "nothing compares with zero")
	require.Equal(t, []string{"off", "throttle"}, s.Cases("1", "off", "important", "throttle"))
	require.Equal(t, []string{"throttle", "off"}, s.Cases("1"))
	require.Len(t, s.Of("1", "off"), 4)
}

func TestTable(t *testing.T) {
	require.Equal(t, "| a | b |\n|---|---|\n| 1 | 2 |\n", Table([]string{"a", "b"}, []string{"1", "2"}))
	require.Equal(t, "| a |\n|---|\n", Table([]string{"a"}))
}

func TestWordsOfFlags(t *testing.T) {
	require.Equal(t, []string{"a", "b", "c"}, Words("a, b c,"))
	require.NoError(t, Known("-only", Words("target"), []string{"target", "disk"}))
	require.ErrorContains(t, Known("-only", Words("target,dusk"), []string{"target", "disk"}),
		`-only "dusk": there are target, disk`)
}

func TestSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	require.NoError(t, Save(file, []int{1}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "[\n  1\n]\n", string(text))
	require.NoError(t, Save("", math.NaN()))
	require.ErrorContains(t, Save(file, math.NaN()), "NaN")
}

func TestTree(t *testing.T) {
	dir := t.TempDir()
	named, err := Tree(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, dir, named)
	_, err = Tree(t.Context(), filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "-tree")
}

const roleVariable = "TIDEMARK_BENCHKIT_TEST_ROLE"

// TestMainSaysWhatFailed runs Main in a process of its own, as it ends one.
func TestMainSaysWhatFailed(t *testing.T) {
	if os.Getenv(roleVariable) != "" {
		Main("somebench", func(ctx context.Context) error {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			if err := self.Signal(os.Interrupt); err != nil {
				return err
			}
			<-ctx.Done()
			return errors.New("stopped, and cleaned up")
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMainSaysWhatFailed$")
	cmd.Env = append(os.Environ(), roleVariable+"=yes")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, string(out), "somebench: stopped, and cleaned up")
}
