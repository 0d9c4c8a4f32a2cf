package service_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/service"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// launchctl puts a launchd in PATH that keeps its state in a folder, and returns the folder. A service that is stopped
// is listed three times more, and its start is then refused with each code that passes; launchctl ends as on macOS.
func launchctl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
cd '` + dir + `'
echo "$1" >>calls
echo "$2" >>domains
case $1 in
print)
	if [ -s stopping ]; then
		sed -i 1d stopping
		[ -s stopping ] || rm loaded
		echo "	state = SIGTERMed"
		exit 0
	fi
	[ -e loaded ] && { echo "	state = running"; exit 0; }
	echo 'Could not find service' >&2; exit 113;;
bootout)
	[ -s fails ] && { code=$(cat fails); echo "Boot-out failed: $code" >&2; rm fails loaded; exit "$code"; }
	[ -e loaded ] || { echo 'Boot-out failed: 3: No such process' >&2; exit 3; }
	printf '1\n2\n3\n' >stopping
	printf '5\n36\n37\n119\n' >busy
	echo 'Boot-out failed: 36: Operation now in progress' >&2; exit 36;;
enable)
	rm -f disabled;;
bootstrap)
	[ -e loaded ] && { echo early >>wrong; exit 5; }
	[ -e disabled ] && { echo 'Bootstrap failed: 5: Input/output error' >&2; exit 5; }
	[ -e broken ] && { echo 'Bootstrap failed: 22: Invalid argument' >&2; exit 22; }
	if [ -s busy ]; then
		code=$(head -n1 busy); sed -i 1d busy
		echo "Bootstrap failed: $code" >&2; exit "$code"
	fi
	cp "$3" loaded;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "launchctl"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

var update = flag.Bool("update", false, "write golden files")

// mac returns a launchd of the system in a folder of its own, and two definitions.
func mac(t *testing.T) (l *service.Launchd, one, other string) {
	t.Helper()
	l = &service.Launchd{Folder: filepath.Join(t.TempDir(), "LaunchDaemons")}
	c := config()
	one, err := l.Text(&c)
	require.NoError(t, err)
	c.OptionFile = "/etc/other.opt"
	other, err = l.Text(&c)
	require.NoError(t, err)
	return l, one, other
}

// TestTheOldServiceIsGoneBeforeTheOtherStarts: launchctl returns before launchd has forgotten a service, and
// launchd refuses a start for some time after that.
func TestTheOldServiceIsGoneBeforeTheOtherStarts(t *testing.T) {
	testkit.Slow(t)
	dir := launchctl(t)
	l, one, other := mac(t)
	for _, text := range []string{one, one, other} {
		before, _ := os.ReadFile(l.Path())
		changed, err := l.Install(t.Context(), text)
		require.NoError(t, err)
		require.Equal(t, string(before) != text, changed)
		loaded, err := os.ReadFile(filepath.Join(dir, "loaded"))
		require.NoError(t, err, "the service runs")
		require.Equal(t, text, string(loaded), "under the new definition")
	}
	require.NoFileExists(t, filepath.Join(dir, "wrong"), "no start before the old one was gone")
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(calls), "bootout\n"), "the same definition changes nothing")
	require.Equal(t, 6, strings.Count(string(calls), "bootstrap\n"), "the first, and the third at the fifth attempt")
}

func TestUninstallLeavesNothingOfLaunchd(t *testing.T) {
	testkit.Slow(t)
	dir := launchctl(t)
	l, one, _ := mac(t)
	root := filepath.Dir(l.Folder)
	require.NoError(t, os.Mkdir(filepath.Join(root, "Logs"), 0o755))
	for _, lost := range []bool{false, true} { // with the list removed by hand, the service runs on
		_, err := l.Install(t.Context(), one)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(root, "Logs", "tidemark.log"), []byte("x"), 0o644))
		if lost {
			require.NoError(t, os.Remove(l.Path()))
		}
		found, err := l.Uninstall(t.Context())
		require.NoError(t, err)
		require.True(t, found)
		require.NoFileExists(t, filepath.Join(dir, "loaded"))
		for _, folder := range []string{"LaunchDaemons", "Logs"} {
			left, err := os.ReadDir(filepath.Join(root, folder))
			require.NoError(t, err)
			require.Empty(t, left, folder)
		}
		found, err = l.Uninstall(t.Context())
		require.NoError(t, err)
		require.False(t, found)
	}
}

func TestADisabledServiceIsEnabledAndOtherErrorsAreNotRepeated(t *testing.T) {
	dir := launchctl(t)
	l, one, _ := mac(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "disabled"), nil, 0o600))
	_, err := l.Install(t.Context(), one)
	require.NoError(t, err)
	_, err = l.Uninstall(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken"), nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "busy")))
	require.NoError(t, os.Remove(filepath.Join(dir, "calls")))
	_, err = l.Install(t.Context(), one)
	require.ErrorContains(t, err, "22: Invalid argument")
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	require.NoError(t, err)
	require.Equal(t, "print\nbootstrap\n", string(calls))
}

// A service that has ended between the look and the stop is stopped; any other error keeps its list.
func TestAServiceThatEndsByItselfIsStopped(t *testing.T) {
	for code, stopped := range map[string]bool{"3": true, "36": true, "113": true, "1": false, "5": false, "125": false} {
		dir := launchctl(t)
		l, one, other := mac(t)
		_, err := l.Install(t.Context(), one)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "fails"), []byte(code), 0o600))
		_, err = l.Install(t.Context(), other)
		want := other
		if stopped {
			require.NoError(t, err, code)
		} else {
			require.ErrorContains(t, err, "Boot-out failed: "+code)
			want = one
		}
		list, err := os.ReadFile(l.Path())
		require.NoError(t, err)
		require.Equal(t, want, string(list), code)
	}
}

// TestADaemonHasAHomeAndAFileForItsErrors: without HOME there is neither cache nor key, and launchd discards what a
// daemon prints.
func TestADaemonHasAHomeAndAFileForItsErrors(t *testing.T) {
	c := config()
	text, err := (&service.Launchd{Folder: "/Library/LaunchDaemons"}).Text(&c)
	require.NoError(t, err)
	for _, pair := range [][2]string{{"HOME", "/var/root"}, {"TMPDIR", "/private/var/tmp"},
		{"StandardErrorPath", "/Library/Logs/tidemark.log"}} {
		flat := strings.Join(strings.Fields(text), "")
		require.Contains(t, flat, "<key>"+pair[0]+"</key><string>"+pair[1]+"</string>")
	}
	text, err = (&service.Launchd{Folder: "/Users/ann/Library/LaunchAgents", User: true}).Text(&c)
	require.NoError(t, err)
	require.Contains(t, text, "<string>/Users/ann/Library/Logs/tidemark.log</string>")
	require.NotContains(t, text, "EnvironmentVariables", "the session has its own")
}

// TestTheListsOfLaunchd pins what launchd is given. Its ProcessType and the absence of Nice and LowPriorityIO keep the
// service from the throttling that macOS gives to background jobs.
func TestTheListsOfLaunchd(t *testing.T) {
	t.Setenv("HOME", "/Users/ann")
	for name, l := range map[string]*service.Launchd{
		"daemon": {Folder: "/Library/LaunchDaemons"}, "agent": {Folder: "/Users/ann/Library/LaunchAgents", User: true},
	} {
		c := config()
		text, err := l.Text(&c)
		require.NoError(t, err)
		path := filepath.Join("testdata", name+".plist")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), text, "run go test ./internal/service -update and look at the difference")
		require.Contains(t, text, "<key>ProcessType</key>\n\t<string>Interactive</string>")
		for _, brake := range []string{"Nice", "LowPriority", "Background", "LegacyTimers", "HardResourceLimits"} {
			require.NotContains(t, text, brake)
		}
	}
}

// A service of the system belongs to launchd's domain of the system, one of a user to the session with a screen.
func TestDomainsOfLaunchd(t *testing.T) {
	testkit.Slow(t)
	for domain, l := range map[string]*service.Launchd{
		"system":                           {Folder: filepath.Join(t.TempDir(), "LaunchDaemons")},
		fmt.Sprintf("gui/%d", os.Getuid()): {Folder: filepath.Join(t.TempDir(), "LaunchAgents"), User: true},
	} {
		dir := launchctl(t)
		c := config()
		text, err := l.Text(&c)
		require.NoError(t, err)
		_, err = l.Install(t.Context(), text)
		require.NoError(t, err)
		_, err = l.Uninstall(t.Context())
		require.NoError(t, err)
		named, err := os.ReadFile(filepath.Join(dir, "domains"))
		require.NoError(t, err)
		for line := range strings.Lines(string(named)) {
			require.True(t, strings.HasPrefix(line, domain+"/") || line == domain+"\n", line)
		}
	}
}
