package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// FuzzRequest sends bytes to a job and to the service: each line is answered by one line, and only a request that is
// well-formed has an effect.
func FuzzRequest(f *testing.F) {
	for _, said := range []string{
		"", "\n", "status\n", "[1]\n", "{}\n", "null\n", `{"version":1`, `{"version":1,"request":"status"}` + "\n",
		`{"version":1,"request":"set-policy","policy":"utility","for_seconds":60}` + "\n",
		`{"version":1,"request":"set-policy","policy":"utility","for_seconds":-1}` + "\n",
		`{"version":1,"request":"set-policy","policy":"utility","for_seconds":18446744073709551615}` + "\n",
		`{"version":1,"request":"return-policy"}` + "\n",
		`{"version":1,"request":"set-max-impact","max_impact":1e308}` + "\n",
		`{"version":1,"request":"pause","job":"a","until":"2026-11-23T00:00:00Z"}` + "\n",
		`{"version":1,"request":"accelerate","until":"x"}` + "\n", strings.Repeat("[", requestLine) + "\n",
	} {
		f.Add([]byte(said))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		j := newJob(iopolicy.Throttle)
		defer j.End()
		ofJob := func(q request) any { return j.answer(q, time.Now()) }
		orders := 0
		ofService := func(q request) any {
			return answerOrder(q, func(o Command) (event.Daemon, error) {
				orders++
				require.NotEmpty(t, o.Action)
				return event.Daemon{}, nil
			})
		}
		for _, reply := range []func(request) any{ofJob, ofService} {
			s := &server{reply: reply}
			r := bufio.NewReaderSize(bytes.NewReader(said), requestLine)
			for {
				var q request
				err := readLine(r, &q)
				if err != nil && !errors.Is(err, errSyntax) {
					break
				}
				var answer any = refuse("%v", err)
				if err == nil {
					answer = s.answer(q)
				}
				var b bytes.Buffer
				require.NoError(t, writeLine(&b, answer))
				require.Equal(t, 1, bytes.Count(b.Bytes(), []byte("\n")))
				var head refusal
				require.NoError(t, json.Unmarshal(b.Bytes(), &head))
				require.Contains(t, []string{"job", "policy_change", "daemon", "refused"}, head.Type)
				require.Equal(t, protocol, head.Version)
				if err != nil {
					break // the connection ends here
				}
			}
		}
		if until := j.Status().PolicyUntil; until != nil {
			require.True(t, time.Until(*until) <= LongestTerm)
		}
		if !bytes.Contains(said, []byte(`:`)) { // no field at all
			require.Empty(t, j.changes)
			require.Zero(t, orders)
		}
	})
}

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
