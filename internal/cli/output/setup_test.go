package output_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// TestTheLineForCron: the end of a setup without a service shows the line, whole, and how often it runs.
func TestTheLineForCron(t *testing.T) {
	line := "*/5 * * * * /usr/bin/tidemark daemon --once --option-file " + strings.Repeat("/long", 20)
	var text show.Page
	(&output.Setup{Cron: line}).Text(&text)
	sentence, rest, found := strings.Cut(text.String(), "Back up by the schedule: ")
	require.True(t, found, sentence)
	require.Equal(t, "this line, added with 'crontab -e',\nruns what is due every 5 minutes:\n  "+line+"\n", rest)
}
