package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestACommandRunsInTheRootFolderWithoutInput(t *testing.T) {
	r, err := Run(t.Context(), Command{Line: "pwd; cat; echo oops >&2; echo $MINE",
		Env: map[string]string{"MINE": "a\x00b"}})
	require.NoError(t, err)
	require.Equal(t, "/\noops\na\\x00b\n", string(r.Output))
	require.Zero(t, r.ExitCode)
	require.False(t, r.Truncated)
}

func TestExitCodesAndSignalsAreErrors(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"echo why; exit 3":      {3, "exit code 3"},
		"/no/such/program":      {127, "exit code 127"},
		"kill -KILL $$":         {-1, "ended by signal killed"},
		"no-such-program-x":     {127, "exit code 127"},
		"if broken syntax then": {2, "exit code 2"},
	} {
		r, err := Run(t.Context(), Command{Line: line})
		require.EqualError(t, err, want.text, line)
		require.Equal(t, want.code, r.ExitCode, line)
	}
}

func TestNoSecretReachesACommand(t *testing.T) {
	for _, name := range []string{
		"TIDEMARK_PASSWORD", "TIDEMARK_PASSWORD_FILE", "TIDEMARK_PASSWORD_COMMAND", "TIDEMARK_SMB_PASSWORD",
		"TIDEMARK_SMB_PASSWORD_FILE", "TIDEMARK_FROM_PASSWORD", "TIDEMARK_FROM_PASSWORD_FILE", "TIDEMARK_FROM_SMB_PASSWORD",
		"CREDENTIALS_DIRECTORY", "TIDEMARK_MAIL_PASSWORD_FILE",
	} {
		t.Setenv(name, "S3CRET")
	}
	t.Setenv("TIDEMARK_REPOSITORY", "smb://ann:S3CRET@nas/share")
	t.Setenv("KEPT", "yes")
	r, err := Run(t.Context(), Command{Line: "env", Env: map[string]string{
		"TIDEMARK_REPOSITORY": "smb://ann:S3CRET@nas/share", "TIDEMARK_MESSAGE": "open smb://ann:S3CRET@nas/share: no",
	}})
	require.NoError(t, err)
	require.NotContains(t, string(r.Output), "S3CRET")
	require.Contains(t, string(r.Output), "\nKEPT=yes\n")
	require.Equal(t, 1, strings.Count(string(r.Output), "TIDEMARK_REPOSITORY="))
	require.Contains(t, string(r.Output), "@nas/share")
}

func TestTheEndOfALongOutputIsKept(t *testing.T) {
	r, err := Run(t.Context(), Command{Line: "head -c 300000 /dev/zero | tr '\\0' x; printf end"})
	require.NoError(t, err)
	require.True(t, r.Truncated)
	require.Len(t, r.Output, maxOutput)
	require.True(t, bytes.HasSuffix(r.Output, []byte("xxend")))
	long, err := Run(t.Context(), Command{Line: "printf %s \"$LONG\"", Env: map[string]string{"LONG": strings.Repeat("ü",
		1<<20)}})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ü", maxValue/2), string(long.Output))
}

// endOf opens a named pipe for reading and returns a function that waits until no process has it open for writing.
func endOf(t *testing.T, pipe string) (wait func()) {
	t.Helper()
	r, err := os.OpenFile(pipe, os.O_RDWR, 0) // the open neither waits for a writer nor sees an early end
	require.NoError(t, err)
	reading, err := os.Open(pipe)
	require.NoError(t, err)
	t.Cleanup(func() { reading.Close() })
	return func() {
		require.NoError(t, r.Close())
		_, err := reading.Read(make([]byte, 1))
		require.Error(t, err) // the end
	}
}

func TestATimeoutEndsGrandchildrenThatIgnoreSIGTERM(t *testing.T) {
	testkit.Slow(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	_, err := Run(t.Context(), Command{Line: "mkfifo " + pipe})
	require.NoError(t, err)
	wait := endOf(t, pipe)
	// The shell ends with SIGTERM at once; its child and the child's child ignore it.
	line := fmt.Sprintf("exec 9>%s; sh -c 'trap \"\" TERM; echo up; sleep 10000; sleep 10000'", pipe)
	r, err := run(t.Context(), Command{Line: line, Timeout: 500 * time.Millisecond}, 100*time.Millisecond)
	require.EqualError(t, err, "ended after 500ms, its timeout; raise HOOKTIMEOUT if it needs longer")
	require.Equal(t, -1, r.ExitCode)
	wait()
}

func TestATimeoutLetsACommandEndInGoodOrder(t *testing.T) {
	testkit.Slow(t)
	line := "trap 'echo in good order; exit 7' TERM; while :; do sleep 1; done"
	r, err := run(t.Context(), Command{Line: line, Timeout: 500 * time.Millisecond}, time.Minute)
	require.ErrorContains(t, err, "its timeout")
	if len(r.Output) > 0 || r.ExitCode != -1 { // the shell had set the trap by then
		require.Contains(t, string(r.Output), "in good order\n")
		require.Equal(t, 7, r.ExitCode)
	}
}

func TestTheEndOfTheContextEndsACommand(t *testing.T) {
	testkit.Slow(t)
	testkit.NoLeaks(t)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	started := filepath.Join(t.TempDir(), "pipe")
	_, err := Run(ctx, Command{Line: "mkfifo " + started})
	require.NoError(t, err)
	go func() {
		_, _ = os.ReadFile(started) // until the command has written
		cancel(why)
	}()
	_, err = Run(ctx, Command{Line: "echo up > " + started + "; sleep 10000"})
	require.ErrorIs(t, err, why)
	r, err := Run(ctx, Command{Line: "echo not run"})
	require.ErrorIs(t, err, why)
	require.Empty(t, r.Output)
}

func TestAChildInTheBackgroundGoesOn(t *testing.T) {
	testkit.Slow(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	_, err := Run(t.Context(), Command{Line: "mkfifo " + pipe})
	require.NoError(t, err)
	wait := endOf(t, pipe)
	r, err := Run(t.Context(), Command{Line: fmt.Sprintf("sleep 10000 9>%s & echo $!", pipe)})
	require.NoError(t, err)
	_, err = Run(t.Context(), Command{Line: "kill -KILL " + strings.TrimSpace(string(r.Output))}) // it lives
	require.NoError(t, err)
	wait()
}

func TestAroundRunsTheCommandsByTheOutcome(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	note := fmt.Sprintf(`echo "$TIDEMARK_STEP|$TIDEMARK_OUTCOME|$TIDEMARK_SNAPSHOT|$TIDEMARK_MESSAGE" >> %s; `, log)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		before, after, failure string
		outcome                Outcome
		want                   []string
		err                    string
	}{
		"done": {
			outcome: Outcome{Word: record.Done, Snapshot: "ab"},
			want:    []string{"before-command|||", "backup", "after-command|done|ab|"},
		},
		"failed": {
			outcome: Outcome{Word: record.Failed, Err: broken}, err: "broken",
			want: []string{"before-command|||", "backup", "after-command|failed||broken", "failure-command|failed||broken"},
		},
		"stopped": {
			outcome: Outcome{Word: record.Stopped, Err: broken}, err: "broken", after: "exit 1",
			want: []string{"before-command|||", "backup", "after-command|stopped||broken"},
		},
		"incomplete": {
			outcome: Outcome{Word: record.Incomplete, Snapshot: "ab", Err: broken}, err: "broken",
			want: []string{"before-command|||", "backup", "after-command|incomplete|ab|broken"},
		},
		"before fails": {
			before: "exit 2", failure: "exit 3", err: "before-command: exit code 2; the backup was not started",
			want: []string{
				"before-command|||",
				"after-command|failed||before-command: exit code 2; the backup was not started",
				"failure-command|failed||before-command: exit code 2; the backup was not started",
			},
		},
		"after fails": {
			outcome: Outcome{Word: record.Done, Snapshot: "ab"}, after: "exit 2", err: "after-command: exit code 2",
			want: []string{
				"before-command|||", "backup", "after-command|done|ab|", "failure-command|failed|ab|after-command: exit code 2",
			},
		},
		"after fails too": {
			outcome: Outcome{Word: record.Failed, Err: broken}, after: "exit 2", err: "broken; after-command: exit code 2",
			want: []string{
				"before-command|||", "backup", "after-command|failed||broken",
				"failure-command|failed||broken; after-command: exit code 2",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(log, nil, 0o600))
			reported := 0
			err := Around(t.Context(), Commands{
				Before: Command{Line: note + c.before}, After: Command{Line: note + c.after}, Failure: Command{Line: note +
					c.failure},
				Ended: func(string, Result, error) { reported++ },
			}, func() Outcome {
				_, err := Run(t.Context(), Command{Line: "echo backup >> " + log})
				require.NoError(t, err)
				return c.outcome
			})
			text, readErr := os.ReadFile(log)
			require.NoError(t, readErr)
			require.Equal(t, c.want, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"))
			require.NotZero(t, reported)
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
				require.Equal(t, strings.HasPrefix(c.err, "broken"), errors.Is(err, broken))
			}
		})
	}
}

// A snapshot without some objects has an exit code of its own, which a failed run must not have.
func TestAFailedAfterCommandReplacesTheErrorOfAnIncompleteBackup(t *testing.T) {
	incomplete := errors.New("incomplete")
	err := Around(t.Context(), Commands{After: Command{Line: "exit 1"}}, func() Outcome {
		return Outcome{Word: record.Incomplete, Err: incomplete}
	})
	require.EqualError(t, err, "after-command: exit code 1; incomplete")
	require.NotErrorIs(t, err, incomplete)
}

func TestTheAfterCommandRunsAfterASignal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var steps []string
	c := Commands{
		Before: Command{Line: "exit 0"}, After: Command{Line: `test "$TIDEMARK_OUTCOME" = stopped`},
		Failure: Command{Line: "exit 0"},
		Ended:   func(step string, _ Result, err error) { steps = append(steps, fmt.Sprint(step, " ", err)) },
	}
	require.ErrorIs(t, Around(ctx, c, func() Outcome {
		cancel()
		return Outcome{Word: record.Stopped, Err: ctx.Err()}
	}), context.Canceled)
	require.Equal(t, []string{"before-command <nil>", "after-command <nil>"}, steps)
	steps = nil
	require.ErrorIs(t, Around(ctx, c, func() Outcome { panic("not reached") }), context.Canceled)
	require.Equal(t, []string{"before-command before-command: context canceled", "after-command <nil>"}, steps)
}

// What a killed run owes is run once; a run that is under way owes nothing yet.
func TestWhatAKilledRunOwesIsSettledOnce(t *testing.T) {
	dir := t.TempDir()
	owed, made := filepath.Join(dir, "owed"), filepath.Join(dir, "made")
	c := Commands{After: Command{Line: "echo $TIDEMARK_OUTCOME >> " + made}, Owed: owed}
	settle := func(want bool) {
		t.Helper()
		ran, err := Settle(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, want, ran)
	}
	settle(false)
	require.NoFileExists(t, owed)
	d, _, err := claim(t.Context(), owed)
	require.NoError(t, err)
	require.NoError(t, d.Close()) // as the end of a process does
	settle(true)
	settle(false)
	require.NoError(t, Around(t.Context(), c, func() Outcome { return Outcome{Word: record.Done} }))
	settle(false)
	text, err := os.ReadFile(made)
	require.NoError(t, err)
	require.Equal(t, "stopped\ndone\n", string(text))
}
