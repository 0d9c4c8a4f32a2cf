package notify

import (
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
