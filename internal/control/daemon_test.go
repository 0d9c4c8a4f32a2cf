package control

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

func TestServiceAnswersOrders(t *testing.T) {
	dir := place(t)
	_, err := Daemon(dir).Status(t.Context())
	require.ErrorIs(t, err, ErrNoDaemon, "no directory")

	var got []Command
	many := usualLimits()
	many.connections = 100
	stop, err := serveDaemon(t.Context(), dir, func(o Command) (event.Daemon, error) {
		got = append(got, o)
		if o.Job == "none" {
			return event.Daemon{}, errors.New("no job none")
		}
		return event.Daemon{PID: 7, Jobs: []event.DaemonJob{{Name: "home", State: "idle"}}}, nil
	}, many)
	require.NoError(t, err)
	_, err = ServeDaemon(t.Context(), dir, nil)
	require.ErrorContains(t, err, "the service of this user is already running; 'tidemark status' shows it")

	d, err := Daemon(dir).Status(t.Context())
	require.NoError(t, err)
	jobs := []event.DaemonJob{{Name: "home", State: "idle"}}
	require.Equal(t, event.Daemon{Type: "daemon", Version: 1, PID: 7, Jobs: jobs}, d)
	until := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, o := range []Command{
		{Action: StartJob, Job: "home"}, {Action: StopJob}, {Action: PauseJob, Job: "home", Until: until},
		{Action: PauseJob, Job: "home"}, {Action: ResumeJob, Job: "home"}, {Action: Reload},
		{Action: Accelerate, Until: until}, {Action: Accelerate}, {Action: CheckAccess},
	} {
		_, err := Daemon(dir).Do(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, o, got[len(got)-1])
	}
	_, err = Daemon(dir).Do(t.Context(), Command{Action: StartJob, Job: "none"})
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "ask the service: refused: no job none")
	_, err = Daemon(dir).Do(t.Context(), Command{Action: "set-policy"})
	require.ErrorContains(t, err,
		`unknown request "set-policy"; there are status, start, stop, pause, resume, reload, accelerate and check-access`)

	all, err := Jobs(dir)
	require.NoError(t, err)
	require.Empty(t, all, "the service is not a job")
	stop()
	require.Empty(t, names(t, dir))
	_, err = Daemon(dir).Status(t.Context())
	require.ErrorIs(t, err, ErrNoDaemon)
}

// The socket of a service that was killed is replaced.
func TestServiceReplacesAStaleSocket(t *testing.T) {
	dir := place(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, daemonSocket), Net: "unix"})
	require.NoError(t, err)
	old.SetUnlinkOnClose(false)
	require.NoError(t, old.Close())
	_, err = Daemon(dir).Status(t.Context())
	require.ErrorIs(t, err, ErrNoDaemon)
	stop, err := ServeDaemon(t.Context(), dir, func(Command) (event.Daemon, error) { return event.Daemon{PID: 1}, nil })
	require.NoError(t, err)
	defer stop()
	d, err := Daemon(dir).Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, d.PID)
}

// A request that is no order never reaches the service.
func TestServiceRefusesNonsense(t *testing.T) {
	dir := place(t)
	stop, err := ServeDaemon(t.Context(), dir, func(Command) (event.Daemon, error) {
		t.Error("an order was carried out")
		return event.Daemon{}, nil
	})
	require.NoError(t, err)
	defer stop()
	for _, said := range []string{
		"x\n", `{"version":2,"request":"status"}` + "\n", `{"version":1,"request":"start","job":7}` + "\n",
		`{"version":1,"request":"pause","job":"a","until":"soon"}` + "\n", `{"version":1}` + "\n",
	} {
		conn, err := net.Dial("unix", filepath.Join(dir, daemonSocket))
		require.NoError(t, err)
		_, err = conn.Write([]byte(said))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Contains(t, string(answer), `"message_type":"refused"`, said)
		require.NoError(t, conn.Close())
	}
}
