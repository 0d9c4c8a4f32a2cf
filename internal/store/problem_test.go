package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// TestFreeSpaceCanBeTyped: the command names the location, but never one that a shell would take apart.
func TestFreeSpaceCanBeTyped(t *testing.T) {
	for location, named := range map[string]string{
		"/mnt/usb/backup":     "/mnt/usb/backup",
		"smb://me@nas/laptop": "smb://me@nas/laptop",
		"/mnt/my disk/backup": "REPOSITORY",
		"/mnt/it's":           "REPOSITORY",
		"/mnt/a$b":            "REPOSITORY",
		"/mnt/a\nb":           "REPOSITORY",
	} {
		require.Contains(t, store.FreeSpace(location), "'tidemark forget --repo "+named+" --keep-daily ", location)
	}
}
