package show

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report"
)

func TestShortReport(t *testing.T) {
	totals := example()
	totals.Gates = gated().Gates
	totals.Failures = 0
	var b Page
	WriteShort(&b, report.New(time.Now), totals, Short{Lead: "snapshot 12345678 saved"})
	require.Equal(t, `snapshot 12345678 saved
files:  1,500 new, 500 changed, 900,000 unchanged, 0 failed
others: 10 new, 20 changed, 121,958 unchanged (directories, links)
data:   100.00 GiB inspected, 41.00 GiB read, 5.00 GiB stored
time:   8 min 32 s, 7 % of it yielding to fio 1234 and 1 more on sda (ssd)
`, b.String())
}

// A source that only lost files is no object that failed, and a compression that made data larger gained nothing.
func TestASourceThatShrankIsNoFailedFile(t *testing.T) {
	l := report.New(time.Now)
	l.Fail("/home/x", "open", errors.New("no"))
	l.Doubt("/home", errors.New("it has 3 files"))
	totals := l.Snapshot()
	require.EqualValues(t, 2, totals.Failures)
	var b Page
	WriteShort(&b, l, &totals, Short{Lead: "saved"})
	require.Contains(t, b.String(), "0 unchanged, 1 failed; 1 source incomplete\n")
	totals.Bytes.Transferred, totals.Bytes.Processed, totals.Bytes.Inspected = 2600, 100, 9
	b.Reset()
	WriteSession(&b, &totals)
	require.Regexp(t, `(?m)^Total number of objects failed: +1$`, b.String())
	require.Regexp(t, `(?m)^Sources incomplete: +1$`, b.String())
	require.Regexp(t, `(?m)^Objects compressed by: +0\.00 %$`, b.String())
	require.Regexp(t, `(?m)^Total data reduction ratio: +0\.00 %$`, b.String())
}

// However much went wrong, there are eight lines, and none repeats a failure, which was printed when it happened.
func TestShortReportOfManyFailures(t *testing.T) {
	for _, failures := range []int{0, 1, 2, 3, 4, 500} {
		for _, facts := range []int{0, 1, 2, 10} {
			l := report.New(time.Now)
			for i := range failures {
				l.Fail(fmt.Sprintf("/%d", i), "open", errors.New("no"))
			}
			l.Note("/x", "set owner", errors.New("no"))
			l.Note("/y", "set owner", errors.New("no"))
			totals := l.Snapshot()
			page := &Page{Colors: true}
			WriteShort(page, l, &totals,
				Short{Lead: "done", Facts: strings.Split("fact"+strings.Repeat("\nfact", facts), "\n")})
			text := page.String()
			require.LessOrEqual(t, strings.Count(text, "\n"), 8)
			require.Contains(t, text, "time: ")
			if failures == 0 {
				require.True(t, strings.HasPrefix(text, "\x1b[1mdone\x1b[0m\n"), text)
				continue
			}
			require.True(t, strings.HasPrefix(text, "\x1b[1mdone\x1b[0m\n"), text)
			require.NotContains(t, text, "open /")
		}
	}
}

// Colours are around a line, and count for nothing in its width.
func TestPrinterColors(t *testing.T) {
	s := &screen{t: t, width: 10}
	p := NewPrinter(s, fixed(10, 5), true)
	p.Show([]Line{{"0123456789", Bold}, {"b", Plain}})
	require.Equal(t, "01234567…\nb", strings.ReplaceAll(strings.ReplaceAll(s.text(), "\x1b[1m", ""), "\x1b[0m", ""))
	var b strings.Builder
	NewPrinter(&b, fixed(10, 5), true).Show([]Line{{"a", Bold}, {"b", Plain}})
	require.Contains(t, b.String(), "\x1b[1ma\x1b[0m\r\nb")
	b.Reset()
	NewPrinter(&b, fixed(10, 5), false).Show([]Line{{"a", Bold}})
	require.NotContains(t, b.String(), "m")
}

// A job that runs has not done all, however much of it is counted: its last data may wait for the repository.
func TestRunningJobIsNotDone(t *testing.T) {
	p := report.Progress{Known: true, Exact: true, Bytes: 10, BytesTotal: 10}
	require.Equal(t, "99.9 % done", done(p))
}
