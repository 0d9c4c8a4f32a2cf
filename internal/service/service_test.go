package service_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/service"
)

// systemctl puts a program of this name in PATH and returns the file in which it records its calls.
func systemctl(t *testing.T, script string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	text := "#!/bin/sh\necho \"$*\" >>'" + calls + "'\n" + script
	require.NoError(t, os.WriteFile(filepath.Join(dir, "systemctl"), []byte(text), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

func unit(t *testing.T, c service.Config) string {
	t.Helper()
	text, err := (&service.Systemd{}).Text(&c)
	require.NoError(t, err)
	return text
}

func config() service.Config {
	return service.Config{System: true, Program: "/usr/bin/tidemark", OptionFile: "/etc/a %$\"b.opt",
		Writable: []string{"/srv/b c"}}
}

func TestUnitQuotesPathsAndRefusesControlCharacters(t *testing.T) {
	text := unit(t, config())
	require.Contains(t, text, `ExecStart="/usr/bin/tidemark" daemon --option-file "/etc/a %%$$\"b.opt"`+"\n")
	require.Contains(t, text, "ReadWritePaths=\"-/srv/b c\"\n")
	c := config()
	c.OptionFile = "/etc/a\nExecStartPre=/bin/x"
	_, err := (&service.Systemd{}).Text(&c)
	require.ErrorContains(t, err, "control characters")
	c.OptionFile = "relative"
	_, err = (&service.Systemd{}).Text(&c)
	require.ErrorContains(t, err, "absolute")
	c = config()
	for _, name := range []string{"", "..", "a:b", "a b", `a"`, "a%n", "a\nb", "../a"} {
		c.Credentials = []string{"good.name-1_2", name}
		_, err = (&service.Systemd{}).Text(&c)
		require.ErrorContains(t, err, "credential", name)
	}
}

// TestTheServiceMayTakeAsLongToStopAsItsSteps: else systemd kills the command that undoes what another one did.
func TestTheServiceMayTakeAsLongToStopAsItsSteps(t *testing.T) {
	c := config()
	require.Contains(t, unit(t, c), "TimeoutStopSec=90\n")
	env := func(name string) (string, bool) {
		if name == "TIDEMARK_OPTIONS" {
			return "/options", true
		}
		return "", false
	}
	spec, _, err := options.Resolve(nil, env, func(string) ([]byte, error) {
		return []byte("AFTERCOMMAND true\nHOOKTIMEOUT 1h\n"), nil
	})
	require.NoError(t, err)
	j := &job.Job{Repository: "/srv/r", Spec: spec}
	c.Add(j, nil)
	require.Greater(t, c.StopTime, j.Grace(true))
	require.Greater(t, j.Grace(true), time.Hour)
	require.Less(t, j.Grace(false), 2*time.Minute)
	require.Contains(t, unit(t, c), fmt.Sprintf("TimeoutStopSec=%d\n", int(c.StopTime.Seconds())))
	text, err := (&service.Launchd{Folder: "/x"}).Text(&c)
	require.NoError(t, err)
	require.Contains(t, text, fmt.Sprintf("<integer>%d</integer>", int(c.StopTime.Seconds())))
}

func TestUnitRestrictsWhatTheJobsAllow(t *testing.T) {
	c := config()
	c.Removable = true
	require.Contains(t, unit(t, c), "ProtectSystem=full\n")
	require.NotContains(t, unit(t, c), "ReadWritePaths")
	c.Commands = true
	require.NotContains(t, unit(t, c), "NoNewPrivileges")
	c = config()
	c.System = false
	require.NotContains(t, unit(t, c), "ProtectSystem")
	require.Contains(t, unit(t, c), "WantedBy=default.target")
}

func TestSystemdAcceptsTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("needs systemd-analyze")
	}
	c := config()
	c.Program = "/bin/true"
	path := filepath.Join(t.TempDir(), "tidemark.service")
	require.NoError(t, os.WriteFile(path, []byte(unit(t, c)), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "tidemark.service:")
}

func TestPropertyListIsXMLAndQuotes(t *testing.T) {
	l := &service.Launchd{Folder: "/Library/LaunchDaemons"}
	c := &service.Config{System: true, Program: "/usr/local/bin/tidemark", OptionFile: "/etc/a & <b>.opt"}
	text, err := l.Text(c)
	require.NoError(t, err)
	var words []string
	inside := ""
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
		case xml.EndElement:
			inside = ""
		case xml.CharData:
			if inside == "string" || inside == "key" {
				words = append(words, string(token))
			}
		}
	}
	require.Subset(t, words, []string{"Label", "/usr/local/bin/tidemark", "daemon", "--option-file", "/etc/a & <b>.opt"})
	c.Credentials = []string{"home"}
	_, err = l.Text(c)
	require.ErrorContains(t, err, "$CREDENTIALS_DIRECTORY")
	c.Program = "tidemark"
	_, err = l.Text(c)
	require.ErrorContains(t, err, "use an absolute path without control characters")
}

func TestConfigIsWhatTheJobsNeed(t *testing.T) {
	text := `METRICSFILE /var/lib/metrics/t.prom
ERRORLOGNAME /var/log/tsm/dsmerror.log
SERVERNAME a
SCHEDULE hourly
DOMAIN /home
REPOSITORY /backup/a
PASSWORDFILE $CREDENTIALS_DIRECTORY/a
SERVERNAME b
SCHEDULE never
DOMAIN /home
REPOSITORY smb://me@nas/backup
SMBPASSWORDFILE $CREDENTIALS_DIRECTORY/nas
`
	env := func(string) (string, bool) { return "", false }
	all, err := job.Load("/etc/opt", []byte(text), env, os.ReadFile)
	require.NoError(t, err)
	mounts := []localfs.Mount{{Path: "/"}, {Path: "/back"}}
	c := config()
	c.Writable = nil
	for _, j := range all {
		c.Add(j, mounts)
	}
	require.Subset(t, c.Writable, []string{"/backup/a", "/var/lib/metrics", "/var/log/tsm"})
	require.Equal(t, []string{"a", "nas"}, c.Credentials)
	require.False(t, c.Removable)
	require.False(t, c.Commands)
	require.Contains(t, unit(t, c), "LoadCredential=a:%E/credstore/a\nLoadCredential=nas:%E/credstore/nas\n")
	c.Add(all[0], append(mounts, localfs.Mount{Path: "/backup"}))
	require.True(t, c.Removable)
	all, err = job.Load("/etc/opt",
		[]byte(strings.Replace(text, "SCHEDULE never", "SCHEDULE never\nAFTERCOMMAND true", 1)), env, os.ReadFile)
	require.NoError(t, err)
	c.Add(all[1], mounts)
	require.True(t, c.Commands)
}

func TestInstallTwiceChangesOnceAndUninstallRemovesIt(t *testing.T) {
	calls := systemctl(t, "")
	s := &service.Systemd{Folder: filepath.Join(t.TempDir(), "new", "user"), User: true}
	text := unit(t, config())
	changed, err := s.Install(t.Context(), text)
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = s.Install(t.Context(), text)
	require.NoError(t, err)
	require.False(t, changed)
	found, err := s.Uninstall(t.Context())
	require.NoError(t, err)
	require.True(t, found)
	require.NoFileExists(t, s.Path())
	found, err = s.Uninstall(t.Context())
	require.NoError(t, err)
	require.False(t, found)
	content, err := os.ReadFile(calls)
	require.NoError(t, err)
	once := "--user daemon-reload\n--user enable --now tidemark.service\n"
	require.Equal(t, once+once+"--user disable --now tidemark.service\n--user daemon-reload\n", string(content))
}

func TestAForeignUnitIsKept(t *testing.T) {
	systemctl(t, "")
	s := &service.Systemd{Folder: t.TempDir()}
	require.NoError(t, os.WriteFile(s.Path(), []byte("[Service]\n"), 0o644))
	_, err := s.Install(t.Context(), unit(t, config()))
	require.ErrorContains(t, err, "it was not written by 'tidemark service install'")
	_, err = s.Uninstall(t.Context())
	require.ErrorContains(t, err, "it was not written by 'tidemark service install'")
	require.FileExists(t, s.Path())
}

func TestStateIsThatOfSystemd(t *testing.T) {
	systemctl(t, "echo UnitFileState=enabled; echo ActiveState=active; echo SubState=running; echo "+
		"ActiveEnterTimestamp=Mon\n")
	s := &service.Systemd{Folder: t.TempDir()}
	state, err := s.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, service.State{Manager: "systemd", Path: s.Path(), Enabled: "enabled", Active: "active",
		Sub: "running", Since: "Mon"}, state)
	systemctl(t, "echo 'System has not been booted with systemd as init system' >&2; exit 1\n")
	_, err = s.State(t.Context())
	require.ErrorIs(t, err, service.ErrNoSystemd)
	require.True(t, strings.Contains(err.Error(), "cron"))
}
