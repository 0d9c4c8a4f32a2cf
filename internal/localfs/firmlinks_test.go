package localfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirmlinksAreTheFoldersOfTheRoot(t *testing.T) {
	require.Equal(t, []string{"/Applications", "/Users", "/usr/local", "/System/Library/Caches"}, parseFirmlinks(
		"/Applications\tApplications\n/Users\tUsers\n/usr/local\tusr/local\n\n"+
			"/System/Library/Caches\tSystem/Library/Caches\nbroken\tx\n/\t/\n"))
}
