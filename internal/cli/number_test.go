package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A number that is none must not count as "not given", which is all jobs of the user.
func TestWrongNumbersAreRefusedInPlainWords(t *testing.T) {
	for _, word := range []string{"0", "-1", "abc", "1.5", "", "99999999999999999999"} {
		for _, args := range [][]string{
			{"tier", "set", "--pid", word, "utility"}, {"run", "-p", word}, {"run", "-p", word, "--", "true"},
			{"bench", "--path", "", "--seconds", word},
		} {
			_, said, code := ran(t.Context(), t, t.TempDir(), args...)
			require.Equal(t, exitUsage, code, args)
			require.Contains(t, said, fmt.Sprintf("invalid argument %q for ", word))
			require.Contains(t, said, "flag: write ")
			require.NotContains(t, said, "strconv")
		}
	}
	_, said, code := ran(t.Context(), t, t.TempDir(), "tier", "set", "--pid", "1", "utility")
	require.Equal(t, exitFailed, code)
	require.Contains(t, said, "process 1 is no running job")
}

func TestInterruptedMeasuringCannotContinue(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	_, said, code := ran(ctx, t, t.TempDir(), "bench", "--path", "", "--policy", "important", "--seconds", "1")
	require.Equal(t, exitInterrupted, code)
	require.Contains(t, said, "interrupted; the results so far are valid")
	require.NotContains(t, said, "run the same command again")
	require.Contains(t, message(fmt.Errorf("store: %w", errors.Join(errInterrupted, context.DeadlineExceeded))),
		"again to continue")
}
