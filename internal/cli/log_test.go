package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
)

// testNotify runs job test-notify with an option file and returns what it prints.
func testNotify(t *testing.T, options, name string) (out string, err error) {
	file := filepath.Join(t.TempDir(), "tidemark.opt")
	require.NoError(t, os.WriteFile(file, []byte(options), 0o600))
	var text bytes.Buffer
	a := &app{Process: Process{Out: &text, Err: &text, Env: func(key string) (string, bool) {
		return t.TempDir(), key == "HOME"
	}}}
	a.print = output.NewText(&text, &text, output.TextOptions{})
	root := a.root()
	root.AddCommand(a.jobTestNotifyCommand())
	root.SetArgs([]string{"test-notify", "--option-file", file, name})
	err = root.ExecuteContext(t.Context())
	return text.String(), err
}

func TestNotificationsOfAJobAreTried(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	options := "NOTIFYDESKTOP no\nSERVERNAME home\nNOTIFYWEBHOOK " + s.URL +
		"/S3CRET?S3CRET\nSERVERNAME quiet\nREPOSITORY /x\n"
	out, err := testNotify(t, options, "home")
	require.NoError(t, err)
	require.Equal(t, "webhook to "+s.URL+": sent\n", out)

	status = http.StatusForbidden
	out, err = testNotify(t, options, "home")
	require.ErrorContains(t, err, "not every message was sent")
	require.Equal(t, exitFailed, exitCode(err))
	require.Contains(t, out, "answered 403 Forbidden")
	require.NotContains(t, out, "S3CRET")

	_, err = testNotify(t, options, "quiet")
	require.ErrorContains(t, err, "job quiet has no way to notify: set NOTIFYMAIL")
	_, err = testNotify(t, options, "absent")
	require.ErrorContains(t, err, "no SERVERNAME absent")
}

func TestMissingDesktopIsNoFailedMessage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for the session bus of Linux")
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/does/not/exist")
	out, err := testNotify(t, "SERVERNAME desk\nNOTIFYDESKTOP yes\n", "desk")
	require.ErrorContains(t, err, "job desk has no way to notify")
	require.Equal(t, "desktop to this desktop: skipped: this user has no desktop session here\n", out)
}
