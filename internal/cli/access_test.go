package cli

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/service"
)

// fakeMac replays what a Mac answers: names of folders or an error, and the results of connections. What is not listed
// is missing.
func fakeMac(folders map[string]any, servers map[string]error) (m mac, asked *[]string) {
	asked = &[]string{}
	m.names = func(folder string) ([]string, error) {
		*asked = append(*asked, folder)
		switch answer := folders[folder].(type) {
		case []string:
			return answer, nil
		case syscall.Errno:
			return nil, &fs.PathError{Op: "open", Path: folder, Err: answer}
		}
		return nil, &fs.PathError{Op: "open", Path: folder, Err: syscall.ENOENT}
	}
	m.dial = func(_ context.Context, address string) error {
		err, ok := servers[address]
		if !ok {
			return &net.DNSError{Name: address, IsNotFound: true}
		}
		if err != nil {
			return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
		}
		return nil
	}
	return m, asked
}

func TestFullDiskAccessIsKnownFromListings(t *testing.T) {
	const mail, messages, safari = "/Users/ann/Library/Mail", "/Users/ann/Library/Messages", "/Users/ann/Library/Safari"
	some := []string{"Bookmarks.plist"}
	for name, c := range map[string]struct {
		folders map[string]any
		want    event.Allowed
		hidden  string
	}{
		"hidden":                   {map[string]any{safari: syscall.EPERM}, event.Denied, safari},
		"hidden beside a listing":  {map[string]any{mail: some, safari: syscall.EPERM}, event.Denied, safari},
		"listed":                   {map[string]any{safari: some}, event.Granted, ""},
		"empty proves nothing":     {map[string]any{safari: []string{}, mail: []string{}}, event.Unknown, ""},
		"missing proves nothing":   {nil, event.Unknown, ""},
		"rights of the file alone": {map[string]any{mail: syscall.EACCES, messages: syscall.EACCES}, event.Unknown, ""},
		"a fault of the disk":      {map[string]any{mail: syscall.EIO, safari: syscall.ENOTDIR}, event.Unknown, ""},
	} {
		m, _ := fakeMac(c.folders, nil)
		got, hidden := m.fullDisk([]string{"/Users/ann/Documents"})
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.hidden, hidden, name)
	}
}

// Only homes that a source concerns are looked at, and no folder whose listing brings up a question.
func TestHomesOfSourcesAreAsked(t *testing.T) {
	users := map[string]any{"/Users": []string{"ann", "bob"}}
	for source, want := range map[string][]string{
		"/Users/ann": {"ann"}, "/Users/ann/Documents/x": {"ann"}, "/Users/": {"ann", "bob"}, "/": {"ann", "bob"},
		"/Volumes/photos": nil, "/UsersOfOld/ann": nil, "/opt": nil,
	} {
		m, asked := fakeMac(users, nil)
		allowed, _ := m.fullDisk([]string{source, source})
		require.Equal(t, event.Unknown, allowed)
		paths := []string{}
		for _, name := range want {
			for _, folder := range []string{"Mail", "Messages", "Safari"} {
				paths = append(paths, "/Users/"+name+"/Library/"+folder)
			}
		}
		*asked = slices.DeleteFunc(*asked, func(path string) bool { return path == "/Users" })
		require.Equal(t, paths, *asked, source)
	}
}

func TestServersWithoutAWay(t *testing.T) {
	servers := map[string]error{"far:445": nil, "refuses:445": syscall.ECONNREFUSED, "away:445": syscall.EHOSTUNREACH,
		"down:445": syscall.EHOSTDOWN, "slow:445": context.DeadlineExceeded}
	m, _ := fakeMac(nil, servers)
	for list, want := range map[string]event.Allowed{
		"": event.Unknown, "far:445": event.Granted, "refuses:445": event.Granted, "down:445": event.Unknown,
		"slow:445": event.Unknown, "nohost:445": event.Unknown, "away:445": event.Doubtful,
		"far:445 away:445": event.Doubtful, "down:445 far:445": event.Granted,
	} {
		got, noWay := m.servers(t.Context(), strings.Fields(list))
		require.Equal(t, want, got, list)
		require.Equal(t, want == event.Doubtful, noWay == "away:445", list)
	}
}

// A service checks the sources and the servers of its jobs.
func TestAccessOfJobs(t *testing.T) {
	m, _ := fakeMac(map[string]any{"/Users/ann/Library/Mail": syscall.EPERM},
		map[string]error{"nas:445": syscall.EHOSTUNREACH, "other:1445": nil})
	got := m.accessOf(t.Context(), []*job.Job{
		{Sources: []string{"/opt", "/Users/ann"}, Repository: "smb://me@nas/backup/x"},
		{Sources: []string{"/etc"}, Repository: "smb://me@other:1445/backup"}, {Repository: "/Volumes/disk/r"},
	})
	require.Equal(t, &event.Access{FullDisk: event.Denied, Hidden: "/Users/ann/Library/Mail", Servers: event.Doubtful,
		NoWay: "nas:445"}, got)
}

// The real calls, with what every system has.
func TestAMacIsAskedByListingsAndConnections(t *testing.T) {
	m, dir := newMac(), t.TempDir()
	names, err := m.names(dir)
	require.NoError(t, err)
	require.Empty(t, names)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	names, err = m.names(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names)
	_, err = m.names(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, syscall.ENOENT)

	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, m.dial(t.Context(), l.Addr().String()))
	require.NoError(t, l.Close())
	require.ErrorIs(t, m.dial(t.Context(), l.Addr().String()), syscall.ECONNREFUSED)
}

func TestAdviceForAServiceOfMacOS(t *testing.T) {
	const program, disk, network = "/opt/tidemark", "Full Disk Access, and add /opt/tidemark", "Local Network"
	denied := &event.Access{FullDisk: event.Denied, Hidden: "/Users/ann/Library/Mail", Servers: event.Granted}
	doubt := &event.Access{FullDisk: event.Granted, Servers: event.Doubtful, NoWay: "nas:445"}
	for _, c := range []struct {
		found *event.Access
		root  bool
		want  []string // what the notes contain, one each
	}{
		{&event.Access{FullDisk: event.Granted, Servers: event.Granted}, false, nil},
		{&event.Access{FullDisk: event.Granted, Servers: event.Unknown}, true, nil},
		{denied, false, []string{"macOS hides /Users/ann/Library/Mail and more from the service"}},
		{doubt, false, []string{"no way to nas:445: see whether it is switched on; from macOS 15 on"}},
		{doubt, true, []string{"no way to nas:445: see whether it is switched on"}},
		{nil, false, []string{disk, network}},
		{nil, true, []string{disk}},
	} {
		notes := adviceFor(c.found, program, c.root)
		require.Len(t, notes, len(c.want))
		for i, part := range c.want {
			require.Contains(t, notes[i], part)
		}
		all := strings.Join(notes, "\n")
		require.Equal(t, c.found == nil || c.found == denied, strings.Contains(all, disk))
		require.False(t, c.root && strings.Contains(all, network), "root needs no permission for networks")
		require.False(t, c.found == nil && strings.Contains(all, "hides /"), "nothing is known")
	}
}

// A service that was just started is asked until it answers. One that does not know the question is asked once.
func TestAServiceIsAskedForItsAccess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "control")
	want := &event.Access{FullDisk: event.Denied, Hidden: "/Users/ann/Library/Mail", Servers: event.Unknown}
	late := time.AfterFunc(300*time.Millisecond, func() {
		stop, err := control.ServeDaemon(t.Context(), dir, func(c control.Command) (event.Daemon, error) {
			if c.Action != control.CheckAccess {
				return event.Daemon{}, fmt.Errorf("asked for %s", c.Action)
			}
			return event.Daemon{Access: want}, nil
		})
		if err == nil {
			t.Cleanup(stop)
		}
	})
	defer late.Stop()
	require.Equal(t, want, askAccess(t.Context(), control.Daemon(dir)))

	old := filepath.Join(t.TempDir(), "control")
	stop, err := control.ServeDaemon(t.Context(), old, func(control.Command) (event.Daemon, error) {
		return event.Daemon{}, fmt.Errorf("unknown request")
	})
	require.NoError(t, err)
	defer stop()
	require.Nil(t, askAccess(t.Context(), control.Daemon(old)))

	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		require.Nil(t, askAccess(t.Context(), control.Daemon("/nosuch")))
		require.Equal(t, startTime, time.Since(began))
	})
}

// A service that was installed is asked on a Mac alone, at the socket that its jobs use.
func TestNotesOfAServiceThatWasInstalled(t *testing.T) {
	a, _ := appWith(t, nil)
	dir, err := a.runtimeDir()
	require.NoError(t, err)
	asked := 0
	stop, err := control.ServeDaemon(t.Context(), dir, func(control.Command) (event.Daemon, error) {
		asked++
		return event.Daemon{Access: &event.Access{FullDisk: event.Denied, Hidden: "/Users/ann/Library/Mail",
			Servers: event.Granted}}, nil
	})
	require.NoError(t, err)
	defer stop()
	user, system := &service.Config{Program: "/opt/tidemark"}, &service.Config{Program: "/opt/tidemark", System: true}
	for _, c := range []*service.Config{user, system} {
		notes := a.serviceNotes(t.Context(), c, "darwin", "ann")
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], "macOS hides /Users/ann/Library/Mail and more from the service")
		require.Contains(t, notes[0], "/opt/tidemark")
	}
	require.Equal(t, 2, asked)

	notes := a.serviceNotes(t.Context(), user, "linux", "ann")
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "loginctl enable-linger ann")
	require.Empty(t, a.serviceNotes(t.Context(), system, "linux", "ann"))
	require.Empty(t, a.serviceNotes(t.Context(), user, "linux", ""))
	require.Equal(t, 2, asked)
}

// The first backup of setup runs in the terminal, so its permission is looked at before.
func TestSetupNotesWhatATerminalLacks(t *testing.T) {
	const safari = "/Users/ann/Library/Safari"
	for _, c := range []struct {
		system string
		answer any
		says   bool
	}{
		{"darwin", syscall.EPERM, true},
		{"darwin", []string{"Bookmarks.plist"}, false},
		{"darwin", []string{}, false},
		{"darwin", syscall.EACCES, false},
		{"linux", syscall.EPERM, false},
	} {
		a, said := appWith(t, nil)
		s := &setupRun{app: a}
		s.result.Sources = []string{"/Users/ann"}
		m, asked := fakeMac(map[string]any{safari: c.answer}, nil)
		s.noteAccess(m, c.system)
		require.Equal(t, c.system == "darwin", len(*asked) > 0)
		require.Equal(t, c.says, strings.Contains(said.String(), safari), "%v: %s", c.answer, said)
		require.Equal(t, c.says, strings.Contains(said.String(), "Full Disk Access, add the terminal"))
	}
}
