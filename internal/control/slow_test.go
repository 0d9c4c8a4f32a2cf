package control

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// A client that sends a byte now and then holds no place for longer than the patience of the socket.
func TestASlowSenderIsCutOff(t *testing.T) {
	dir := place(t)
	l := limits{patience: 50 * time.Millisecond, pause: time.Microsecond, connections: 1}
	begin(t, dir, newJob(iopolicy.Important), l)
	conn := dial(t, only(t, dir))
	line := `{"version":1,"request":"status"` + strings.Repeat(" ", requestLine/2)
	require.Eventually(t, func() bool {
		_, err := conn.Write([]byte(line[:1]))
		line = line[1:]
		return err != nil
	}, 30*time.Second, 20*time.Millisecond, "it is disconnected before the line is complete")
}
