package daemon

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/record"
)

// TestTheOutputOfCommandsIsRecorded: what a command printed is in the log of its run, and the last lines of one that
// failed are in the message of the run, which is sent to people.
func TestTheOutputOfCommandsIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, makeJob(t, "home", daily()))
		w.result = func(Step) (time.Duration, Result) {
			var o output
			_, err := o.Write([]byte(`{"message_type":"hook","step":"before-command","error":"exit code 1",` +
				`"output":"1\n2\n3\n4\n5\nno space"}` + "\n" + `{"message_type":"exit_error","message":"refused"}` + "\n"))
			require.NoError(t, err)
			return 0, o.result(1)
		}
		stop := w.begin()
		time.Sleep(3 * time.Hour)
		require.NoError(t, stop())
		notes, message := "", ""
		for _, e := range w.take() {
			switch {
			case e.Kind == record.Note && e.Run != nil:
				notes += e.Text
			case e.Kind == record.Finished && message == "":
				message = e.Run.Message
			}
		}
		require.Contains(t, notes, "before-command printed: 1\n2\n3\n4\n5\nno space")
		require.True(t, strings.HasSuffix(message, "refused\nbefore-command printed: 2\n3\n4\n5\nno space"), message)
	})
}
