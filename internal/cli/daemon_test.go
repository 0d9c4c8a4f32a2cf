package cli

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/notify"
	"github.com/tidemark-backup/tidemark/internal/record"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// A healthcheck that got the start of a run waits for its end.
func TestTheEndOfARunIsSentIfItsJobLeftTheOptionFile(t *testing.T) {
	pings := make(chan string, 10)
	answer := func(_ http.ResponseWriter, r *http.Request) { pings <- r.URL.Path }
	server := httptest.NewServer(http.HandlerFunc(answer))
	defer server.Close()
	env := func(string) (string, bool) { return "", false }
	text := "SERVERNAME home\nREPOSITORY /repo\nDOMAIN /home\nSCHEDULE never\nHEALTHCHECK " + server.URL + "/home\n"
	read := func(string) ([]byte, error) { return nil, errors.New("no file") }
	jobs, err := job.Load("/options", []byte(text), env, read)
	require.NoError(t, err)
	list := &jobList{}
	list.set(jobs)
	people := notify.New(notify.Config{Of: list.notify, Jobs: list.names, Log: func(*record.Event) {}, Host: "here",
		Dir: t.TempDir()})
	people.Event(&record.Event{At: time.Now(), Kind: record.Loaded})
	people.Event(&record.Event{At: time.Now(), Kind: record.Started, Job: "home"})
	require.Equal(t, "/home/start", <-pings)
	list.set(nil)
	people.Event(&record.Event{At: time.Now(), Kind: record.Finished, Job: "home",
		Run: &event.Run{Job: "home", Outcome: record.Done}})
	require.NoError(t, people.Close())
	require.Len(t, pings, 1)
	require.Equal(t, "/home", <-pings)
	list.set(jobs)
	require.Empty(t, list.former)
}
