package setup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// A label is what the service finds a volume by: the name of its mount point in /Volumes.
func TestLabelsOfVolumesOfMacOS(t *testing.T) {
	mounts := []localfs.Mount{
		{Path: "/", Source: "/dev/disk3s1s1"}, {Path: "/System/Volumes/Data", Source: "/dev/disk3s5"},
		{Path: "/Users/ann/Volumes/Blue", Source: "/dev/disk4s1"}, {Path: "/Volumes/Blue disk", Source: "/dev/disk4s1"},
		{Path: "/Volumes/Blue disk/inner", Source: "/dev/disk5s1"}, {Path: "/Volumes", Source: "/dev/disk6s1"},
		{Path: "/Volumes/photos", Source: "//ann@nas/photos"},
	}
	for source, want := range map[string]string{
		"/dev/disk4s1": "Blue disk", "/dev/disk3s5": "", "/dev/disk3s1s1": "", "/dev/disk5s1": "", "/dev/disk6s1": "",
		"//ann@nas/photos": "photos", "/dev/disk4": "", "": "",
	} {
		require.Equal(t, want, labelOfMac(mounts, source), source)
	}
}
