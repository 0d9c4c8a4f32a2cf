package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/control"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

func TestStatusAsksTheService(t *testing.T) {
	base, err := os.MkdirTemp("", "cli") // paths of sockets are short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	require.NoError(t, os.Chmod(base, 0o700))
	var mu sync.Mutex
	var orders []control.Command
	refused := error(nil)
	made := time.Now()
	do := func(o control.Command) (event.Daemon, error) {
		mu.Lock()
		defer mu.Unlock()
		orders = append(orders, o)
		return event.Daemon{PID: 7, Jobs: []event.DaemonJob{
			{Name: "home", State: "idle", Schedule: "daily 02:30", Repository: "/srv/backup", LastBackup: made},
			{Name: "mail", State: "paused", Repository: "/srv/backup", LastBackup: made},
		}}, refused
	}
	stop, err := control.ServeDaemon(t.Context(), filepath.Join(base, "tidemark"), do)
	require.NoError(t, err)
	defer stop()

	out, failed, code := ran(t.Context(), t, base, "status")
	require.Zero(t, code, failed)
	require.Contains(t, out, "home: idle\n")
	require.Contains(t, out, "mail: paused\n")
	require.NotContains(t, out, "not running")

	out, failed, code = ran(t.Context(), t, base, "status", "mail", "--json")
	require.Zero(t, code, failed)
	var got event.Overview
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Service.Jobs, 1)
	require.Equal(t, "mail", got.Service.Jobs[0].Name)

	_, failed, code = ran(t.Context(), t, base, "status", "none")
	require.Equal(t, 3, code)
	require.Contains(t, failed, `there is no job "none": there are home, mail`)

	// No job runs, and the steps that start within the time are accelerated.
	before := time.Now()
	_, failed, code = ran(t.Context(), t, base, "accelerate", "--for", "20m")
	require.Zero(t, code)
	require.Contains(t, failed, "no job is running")
	last := orders[len(orders)-1]
	require.Equal(t, control.Accelerate, last.Action)
	require.WithinRange(t, last.Until, before.Add(20*time.Minute), time.Now().Add(20*time.Minute))
	_, _, code = ran(t.Context(), t, base, "accelerate", "--off")
	require.Zero(t, code)
	require.Equal(t, control.Command{Action: control.Accelerate}, orders[len(orders)-1])
	count := len(orders)
	_, failed, code = ran(t.Context(), t, base, "accelerate", "--pid", "1")
	require.Equal(t, 1, code)
	require.Contains(t, failed, "process 1 is no running job of this user")
	require.Len(t, orders, count, "the service is not asked about one process")

	refused = errors.New("not today")
	_, failed, code = ran(t.Context(), t, base, "accelerate")
	require.Equal(t, 1, code)
	require.Contains(t, failed, "not today")
	out, _, code = ran(t.Context(), t, base, "status")
	require.Equal(t, 3, code, "what is missing is shown")
	require.Contains(t, out, "not today")
	require.Contains(t, out, "the service runs and does not answer")
}
