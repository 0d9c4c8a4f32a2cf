package notify

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// desk is a notification server.
type desk struct{ shown chan [3]string }

// Notify is the method of org.freedesktop.Notifications.
func (d *desk) Notify(app string, _ uint32, _, title, text string, _ []string, _ map[string]dbus.Variant,
	_ int32) (uint32, *dbus.Error) {
	d.shown <- [3]string{app, title, text}
	return 1, nil
}

func TestMessageIsShownOnTheDesktop(t *testing.T) {
	program := testkit.RequireTool(t, "dbus-daemon")
	address := "unix:path=" + filepath.Join(t.TempDir(), "bus")
	bus := exec.Command(program, "--session", "--nofork", "--nopidfile", "--address="+address)
	require.NoError(t, bus.Start())
	t.Cleanup(func() { _ = bus.Process.Kill(); _ = bus.Wait() })
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", address)
	var c *dbus.Conn
	require.Eventually(t, func() (up bool) {
		var err error
		c, err = dbus.Connect(address)
		return err == nil
	}, patience, 20*time.Millisecond)
	t.Cleanup(func() { _ = c.Close() })
	d := &desk{shown: make(chan [3]string, 1)}
	require.NoError(t, c.Export(d, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"))
	_, err := c.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue)
	require.NoError(t, err)
	require.NoError(t, notifyDesktop(t.Context(), nil, message()))
	require.Equal(t, [3]string{"tidemark", "tidemark: home on box: backup failed", "Backup failed: x"}, <-d.shown)
}

func TestWithoutDesktopOnlyATestFails(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/does/not/exist")
	require.NoError(t, notifyDesktop(t.Context(), nil, message()))
	m := message()
	m.Kind = test
	require.ErrorIs(t, notifyDesktop(t.Context(), nil, m), errDesktop)
}
