package notify

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADaemonShowsMessagesInTheSessionOfTheScreen(t *testing.T) {
	mine := osascript(501, 501, "tidemark: a", "$(x) \"")
	require.Equal(t, "/usr/bin/osascript", mine[0])
	require.Equal(t, []string{"end run", "tidemark: a", "$(x) \""}, mine[len(mine)-3:], "texts are no part of the script")
	daemon := osascript(0, 501, "tidemark: a", "$(x) \"")
	require.Equal(t, slices.Concat([]string{"/bin/launchctl", "asuser", "501", "/usr/bin/sudo", "-n", "-u", "#501", "--"},
		mine), daemon)
	require.Nil(t, osascript(0, 0, "title", "text"), "the login window has no session")
}

// A Mac without a session, or that refuses the message, fails a test and nothing else.
func TestWithoutASessionOnlyATestFailsOnMacOS(t *testing.T) {
	// sudo -n, where its rules ask for a password
	refused := errors.New("exit status 1: sudo: a password is required")
	for name, c := range map[string]struct {
		command []string
		fails   error
		want    error
	}{
		"shown":      {osascript(501, 501, "a", "b"), nil, nil},
		"refused":    {osascript(0, 501, "a", "b"), refused, refused},
		"no session": {osascript(0, 0, "a", "b"), nil, errDesktop},
	} {
		for _, kind := range []string{failed, test} {
			m := message()
			m.Kind = kind
			var ran [][]string
			err := showInSession(m, c.command, func(command []string) error {
				ran = append(ran, command)
				return c.fails
			})
			if kind == test {
				require.ErrorIs(t, err, c.want, name)
			} else {
				require.NoError(t, err, name)
			}
			require.Equal(t, c.command != nil, len(ran) == 1, name)
		}
	}
}
