package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// called runs the program, and returns its exit code and its output.
func called(ctx context.Context, t *testing.T, args ...string) (int, string) {
	t.Helper()
	home := t.TempDir()
	var out, said bytes.Buffer
	code := Run(ctx, Process{Args: args, In: &bytes.Buffer{}, Out: &out, Err: &said,
		Env: func(name string) (string, bool) {
			if name == "HOME" || name == "XDG_RUNTIME_DIR" {
				return home, true
			}
			return "", false
		}})
	return code, said.String()
}

// A number that is none must not count as "not given", which is all jobs of the user.
func TestWrongNumbersAreRefusedInPlainWords(t *testing.T) {
	for _, word := range []string{"0", "-1", "abc", "1.5", "", "99999999999999999999"} {
		for _, args := range [][]string{
			{"tier", "set", "--pid", word, "utility"}, {"run", "-p", word}, {"run", "-p", word, "--", "true"},
			{"bench", "--path", "", "--seconds", word},
		} {
			code, said := called(t.Context(), t, args...)
			require.Equal(t, exitUsage, code, args)
			require.Contains(t, said, fmt.Sprintf("invalid argument %q for ", word))
			require.Contains(t, said, "flag: write ")
			require.NotContains(t, said, "strconv")
		}
	}
	code, said := called(t.Context(), t, "tier", "set", "--pid", "1", "utility")
	require.Equal(t, exitFailed, code)
	require.Contains(t, said, "process 1 is no running job")
}

func TestInterruptedMeasuringCannotContinue(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	code, said := called(ctx, t, "bench", "--path", "", "--policy", "important", "--seconds", "1")
	require.Equal(t, exitInterrupted, code)
	require.Contains(t, said, "interrupted; the results so far are valid")
	require.NotContains(t, said, "run the same command again")
	require.Contains(t, message(fmt.Errorf("store: %w", errors.Join(errInterrupted, context.DeadlineExceeded))),
		"again to continue")
}
