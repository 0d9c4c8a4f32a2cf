package sourcesnap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// snapshotOfMac is the name of the snapshot that aMac makes.
const snapshotOfMac = "com.apple.TimeMachine.2026-11-28-191500.local"

// aMac answers as the programs of macOS do. Its volumes are folders, and a mount is a copy of one.
type aMac struct {
	volumes []string
	made    string          // name of the snapshot; "": none
	mounts  map[string]bool // of snapshots
	calls   []string        // programs and verbs
	fails   map[string]error
	says    string // the output of tmutil localsnapshot
}

// exits is the error of a program that ends with a status and says something.
func exits(program string, status int, says string) error {
	return fmt.Errorf("%s: exit status %d: %s", program, status, says)
}

func newMac(t *testing.T, volumes ...string) *aMac {
	t.Helper()
	m := &aMac{mounts: map[string]bool{}, fails: map[string]error{}}
	m.says = "NOTE: local snapshots are considered purgeable and may be removed at any time by deleted(8).\n" +
		"Created local snapshot with date: 2026-11-28-191500\n"
	t.Setenv("TMPDIR", t.TempDir())
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, name := range volumes {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Join(path, "home", "ann"), 0o700))
		m.volumes = append(m.volumes, path)
	}
	return m
}

func (m *aMac) maker(root bool) *apfs {
	return &apfs{volumeOf: m.volumeOf, run: m.run, root: root, mounted: map[string]string{}}
}

func (m *aMac) volumeOf(path string) (volume, system string, err error) {
	for _, v := range m.volumes {
		if strings.HasPrefix(path+"/", v+"/") {
			return v, "apfs", nil
		}
	}
	return "/", "hfs", nil
}

func (m *aMac) run(_ context.Context, name string, args ...string) (string, error) {
	verb := name
	if name == "tmutil" {
		verb = args[0]
	}
	m.calls = append(m.calls, verb)
	if err := m.fails[verb]; err != nil {
		return "", err
	}
	at := args[len(args)-1]
	switch verb {
	case "localsnapshot":
		m.made = snapshotOfMac
		return m.says, nil
	case "deletelocalsnapshots":
		if "com.apple.TimeMachine."+at+".local" != m.made || len(m.mounts) > 0 {
			return "", exits(name, 1, "Failed to delete local snapshot '"+at+"'")
		}
		m.made = ""
	case "mount_apfs":
		if strings.Join(args[:4], " ") != "-o ro,nobrowse -s "+m.made {
			return "", exits(name, 66, "mount_apfs: volume could not be mounted: No such file or directory")
		}
		m.mounts[at] = true
		return "", os.CopyFS(at, os.DirFS(args[4]))
	case "umount":
		if !m.mounts[at] {
			return "", exits(name, 1, "umount: "+at+": not currently mounted")
		}
		delete(m.mounts, at)
		return "", os.RemoveAll(filepath.Join(at, "home"))
	}
	return "", nil
}

// left returns what is left of the snapshots: files, mounts and the snapshot itself.
func (m *aMac) left(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for at := range m.mounts {
		names = append(names, at)
	}
	if m.made != "" {
		names = append(names, m.made)
	}
	return names
}

// One snapshot serves all sources, and each volume is mounted once under its name.
func TestSourcesOfAMacShareASnapshot(t *testing.T) {
	m := newMac(t, "a/Blue", "b/Blue")
	one, other := m.volumes[0], filepath.Join(m.volumes[1], "home", "ann")
	sources := []string{one, filepath.Join(one, "home"), other}
	s, err := Take(t.Context(), m.maker(true), sources, false)
	require.NoError(t, err)
	require.Equal(t, []string{"localsnapshot", "mount_apfs", "mount_apfs"}, m.calls)
	for _, source := range sources {
		require.DirExists(t, s.Place(source))
		require.Equal(t, filepath.Base(source), filepath.Base(s.Place(source)))
	}
	require.NotEqual(t, s.Place(one), filepath.Dir(filepath.Dir(s.Place(other))), "each volume has its own")
	require.NoError(t, s.Close(t.Context()))
	require.Empty(t, m.left(t))
	calls := len(m.calls)
	require.NoError(t, s.Close(t.Context()))
	require.Len(t, m.calls, calls, "it is closed once")
}

// Whatever a program of the system refuses, nothing is left, and the error says what it said.
func TestRefusedSnapshotsOfAMacLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		root  bool
		verb  string
		err   error
		calls string
	}{
		"not root": {false, "", errors.New("only root can make a snapshot"), ""},
		"no snapshot": {true, "localsnapshot", exits("tmutil", 1, "Failed to create local snapshot"),
			"localsnapshot"},
		// Without Full Disk Access: https://github.com/brechtm/thriftybackup/issues/1
		"no mount": {true, "mount_apfs", exits("mount_apfs", 77, "volume could not be mounted: Operation not permitted"),
			"localsnapshot mount_apfs deletelocalsnapshots"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMac(t, "Blue")
			m.fails[c.verb] = c.err
			_, err := Take(t.Context(), m.maker(c.root), m.volumes, false)
			require.ErrorContains(t, err, c.err.Error())
			require.Equal(t, c.calls, strings.Join(m.calls, " "))
			require.Empty(t, m.left(t))

			m.calls = nil
			s, err := Take(t.Context(), m.maker(c.root), m.volumes, true)
			require.NoError(t, err)
			require.Contains(t, s.Notes[0], c.err.Error())
			require.NoError(t, s.Close(t.Context()))
			require.Empty(t, m.left(t))
		})
	}
	m := newMac(t, "Blue")
	_, err := Take(t.Context(), m.maker(true), []string{t.TempDir()}, false)
	require.ErrorIs(t, err, ErrFileSystem)
	m.says = "tmutil: nothing was done\n"
	_, err = Take(t.Context(), m.maker(true), m.volumes, false)
	require.ErrorContains(t, err, "named no snapshot: tmutil: nothing was done")
	require.NotContains(t, m.calls, "deletelocalsnapshots", "a snapshot without a name is not ours")
}

// A snapshot in use is neither deleted nor are its files: umount refuses, and so does rmdir.
func TestASnapshotOfAMacInUseStays(t *testing.T) {
	m := newMac(t, "Blue", "Green")
	s, err := Take(t.Context(), m.maker(true), m.volumes, false)
	require.NoError(t, err)
	at := s.Place(m.volumes[0])
	busy := exits("umount", 1, "umount("+at+"): Resource busy -- try 'diskutil unmount'")
	m.fails["umount"] = busy
	require.ErrorIs(t, s.Close(t.Context()), busy)
	require.NotContains(t, m.calls, "deletelocalsnapshots")
	require.DirExists(t, filepath.Join(at, "home", "ann"))
	require.Len(t, m.mounts, 2)

	delete(m.fails, "umount")
	full := exits("tmutil", 1, "Failed to delete local snapshot")
	m.fails["deletelocalsnapshots"] = full
	require.ErrorIs(t, s.Close(t.Context()), full)
	require.Equal(t, []string{snapshotOfMac}, m.left(t))
	delete(m.fails, "deletelocalsnapshots")
	require.NoError(t, s.Close(t.Context()))
	require.Empty(t, m.left(t))
}

// mount_apfs that is killed can leave its mount behind. What it shows is not removed.
func TestAMountThatWasNotReportedIsNotEmptied(t *testing.T) {
	m := newMac(t, "Blue")
	a := m.maker(true)
	killed := errors.New("mount_apfs: signal: killed")
	a.run = func(ctx context.Context, name string, args ...string) (string, error) {
		out, err := m.run(ctx, name, args...)
		if name == "mount_apfs" {
			err = errors.Join(err, killed)
		}
		return out, err
	}
	_, err := Take(t.Context(), a, m.volumes, false)
	require.ErrorIs(t, err, killed)
	require.ErrorIs(t, err, syscall.ENOTEMPTY, "EBUSY on a Mac")
	var kept int
	require.NoError(t, filepath.WalkDir(os.TempDir(), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, "home/ann") {
			kept++
		}
		return err
	}))
	require.Equal(t, 1, kept)
}

// The folders of the data volume also appear at the root.
func TestPlacesInASnapshotOfAMac(t *testing.T) {
	for _, c := range [][3]string{
		{"/", "/usr/share", "/t/0/root/usr/share"},
		{"/", "/", "/t/0/root"},
		{dataVolume, "/Users/ann", "/t/0/root/Users/ann"},
		{dataVolume, dataVolume + "/Users/ann", "/t/0/root/Users/ann"},
		{dataVolume, dataVolume, "/t/0/root"},
		{"/Volumes/Blue", "/Volumes/Blue", "/t/0/root"},
		{"/Volumes/Blue", "/Volumes/Blue/Volumes/Blue", "/t/0/root/Volumes/Blue"},
	} {
		require.Equal(t, c[2], placeIn("/t/0/root", c[0], c[1]), "%v", c)
	}
}

// The date is found with and without the line before it.
func TestTheDateOfASnapshotOfAMac(t *testing.T) {
	for says, want := range map[string]string{
		"Created local snapshot with date: 2026-04-26-223736\n":                                      "2026-04-26-223736",
		"NOTE: may be removed by deleted(8).\nCreated local snapshot with date: 2017-08-27-004037\n": "2017-08-27-004037",
		"":                                 "",
		"Failed to create local snapshot":  "",
		"Created at 2026-04-26 22:37:36\n": "",
	} {
		require.Equal(t, want, snapshotDate(says), says)
	}
}
