package machinestate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// table is a mount table with these mount points, or one that cannot be read.
func table(err error, paths ...string) mountsOfMac {
	return func() (all []localfs.Mount, _ error) {
		for _, path := range paths {
			all = append(all, localfs.Mount{Path: path})
		}
		return all, err
	}
}

// A volume is found by its name in the mount table, and by its UUID with diskutil alone.
func TestVolumesOfAMacAreFound(t *testing.T) {
	const uuid = "0F3C2B1A-5D6E-4F70-8192-A3B4C5D6E7F8"
	blue := "   Volume Name:               Blue\n   Mount Point:               /Volumes/Blue 1\n"
	absent := errors.New("exit status 1") // Could not find disk
	for name, c := range map[string]struct {
		by, name string
		table    mountsOfMac
		info     string
		err      error
		path     string
	}{
		"by label":         {"LABEL", "Blue", table(nil, "/", "/Volumes/Blue"), "", nil, "/Volumes/Blue"},
		"another label":    {"LABEL", "Blue", table(nil, "/", "/Volumes/Blue 1"), "", nil, ""},
		"a folder":         {"LABEL", "../Users", table(nil, "/", "/Users"), "", nil, ""},
		"no label":         {"LABEL", "", table(nil, "/", "/Volumes"), "", nil, ""},
		"no table":         {"LABEL", "Blue", table(unix.EIO, "/Volumes/Blue"), "", nil, ""},
		"by UUID":          {"UUID", uuid, table(nil), blue, nil, "/Volumes/Blue 1"},
		"not mounted":      {"UUID", uuid, table(nil, "/"), "   Mounted:                   No\n", nil, ""},
		"not there":        {"UUID", uuid, table(nil, "/"), blue, absent, ""},
		"a UUID as a name": {"UUID", "Blue", table(nil, "/Volumes/Blue"), "", absent, ""},
	} {
		var asked []string
		path, ok := c.table.find(c.by, c.name, func(uuid string) ([]byte, error) {
			asked = append(asked, uuid)
			return []byte(c.info), c.err
		})
		require.Equal(t, c.path != "", ok, name)
		if ok {
			require.Equal(t, c.path, path, name)
		}
		require.Equal(t, c.by == "UUID", len(asked) == 1 && asked[0] == c.name, name)
	}
}

// Only a change of the mount points is reported: not an interval without one, nor a table that cannot be read.
func TestChangesOfMountsOfAMac(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := table(unix.EIO)
		ctx, cancel := context.WithCancel(t.Context())
		changes, ended := make(chan struct{}, 1), make(chan struct{})
		go func() {
			mountsOfMac(func() ([]localfs.Mount, error) { return now() }).watch(ctx, changes, mountPollOfTest)
			close(ended)
		}()
		synctest.Wait()
		for i, c := range []struct {
			table   mountsOfMac
			changed int
		}{
			{table(unix.EIO), 0},
			{table(nil, "/"), 1}, // not known before
			{table(nil, "/"), 0},
			{table(nil, "/", "/Volumes/Blue"), 1},
			{table(unix.EIO), 0},
			{table(nil, "/", "/Volumes/Blue"), 0},
			{table(unix.EIO, "/"), 0}, // read in part
			{table(nil, "/"), 1},
		} {
			now = c.table
			<-time.After(mountPollOfTest)
			synctest.Wait()
			require.Len(t, changes, c.changed, i)
			for range c.changed {
				<-changes
			}
		}
		cancel()
		<-ended
	})
}

const mountPollOfTest = 10 * time.Second

func TestVolumeOf(t *testing.T) {
	for text, want := range map[string]string{
		"   Volume Name:    Blue\n   Mounted:      Yes\n   Mount Point:   /Volumes/Blue 1\n": "/Volumes/Blue 1",
		"   Volume Name:    Blue\n   Mounted:      No\n":                                     "",
		"   Mount Point:\n": "",
		"":                  "",
	} {
		path, ok := volumeOf(text)
		require.Equal(t, want != "", ok, text)
		require.Equal(t, want, path, text)
	}
}
