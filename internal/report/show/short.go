package show

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// shortLines is the most lines of a short report.
const shortLines = 8

// leastYielding is the shortest time that a short report calls yielding.
const leastYielding = 50 * time.Millisecond

// Short is the report at the end of a job unless --report full is given.
type Short struct {
	Lead    string // the first line: what became of the job
	Figures []string
	Facts   []string // what else there is to know, in order of importance
}

// WriteShort writes at most eight lines: the lead, the figures of the job, the facts and the number of remarks.
// Failures were printed when they happened.
func WriteShort(b *Page, l *report.Ledger, t *report.Totals, s Short) {
	lines := append([]string{s.Lead}, shortRows(t)...)
	lines = append(lines, s.Figures...)
	lines = append(lines, "time:   "+shortTime(t)+limited(t.Limits)+away(t.Outage))
	lines = append(lines, s.Facts...)
	if line := l.Remarks(); line != "" {
		lines = append(lines, line)
	}
	if r := t.Requests; r != (report.Requests{}) {
		lines = append(lines, fmt.Sprintf("requests: %s PUT and LIST, %s GET and HEAD, %s DELETE", human.Count(r.Put),
			human.Count(r.Get), human.Count(r.Delete)))
	}
	lines = lines[:min(len(lines), shortLines)]
	for i, line := range lines {
		lines[i] = b.Prose(line)
	}
	lines[0] = b.Styled(Bold, lines[0])
	b.WriteString(strings.Join(lines, "\n") + "\n")
}

// shortRows are the figures of a job.
func shortRows(t *report.Totals) []string {
	b := &t.Bytes
	rows := []string{}
	switch t.Job {
	case report.Backup:
		files := "files:  " + compared(t.Files) + ", " + human.Count(t.Failures-t.Doubted) + " failed"
		if t.Doubted > 0 {
			files += "; " + human.Plural(t.Doubted, "source") + " incomplete"
		}
		rows = append(rows, files)
		others := report.ComparedOf[uint64]{
			New: t.Dirs.New + t.Others.New, Changed: t.Dirs.Changed + t.Others.Changed, Unmodified: t.Dirs.Unmodified +
				t.Others.Unmodified,
		}
		rows = append(rows, "others: "+compared(others)+" (directories, links)",
			fmt.Sprintf("data:   %s inspected, %s read, %s stored", human.Size(b.Inspected), human.Size(b.Read),
				human.Size(b.Stored)))
	case report.Restore:
		rows = append(rows, fmt.Sprintf("data:   %s restored, %s written, %s fetched", human.Size(b.Restored),
			human.Size(b.Written), human.Size(b.Fetched)))
	case report.Check:
		if b.Verified > 0 {
			return append(rows, fmt.Sprintf("data:   %s verified, %s fetched", human.Size(b.Verified), human.Size(b.Fetched)))
		}
		rows = append(rows, fmt.Sprintf("data:   %s fetched", human.Size(b.Fetched)))
	}
	return rows
}

func compared(c report.ComparedOf[uint64]) string {
	return fmt.Sprintf("%s new, %s changed, %s unchanged", human.Count(c.New), human.Count(c.Changed),
		human.Count(c.Unmodified))
}

// limited returns the limits of the transfer rates, "" if there are none.
func limited(l report.Limits) string {
	var parts []string
	if l.Upload > 0 {
		parts = append(parts, human.Rate(uint64(l.Upload), time.Second)+" up")
	}
	if l.Download > 0 {
		parts = append(parts, human.Rate(uint64(l.Download), time.Second)+" down")
	}
	if len(parts) == 0 {
		return ""
	}
	return "; limited to " + strings.Join(parts, ", ")
}

// away is for how long the target did not answer, "" if it always did.
func away(o report.Outage) string {
	if o.Took < report.LeastOutage {
		return ""
	}
	return "; the target did not answer for " + human.Span(o.Took)
}

// shortTime is the elapsed time, and the part of it in which the job yielded.
func shortTime(t *report.Totals) string {
	text := human.Span(t.Elapsed)
	g, share := t.Yielded()
	switch {
	case g == nil || g.Held < leastYielding:
		return text + ", none of it yielding"
	case share < 0.01:
		return text + ", less than 1 % of it yielding"
	}
	return fmt.Sprintf("%s, %s of it yielding to %s", text, human.Share(share), g.Whom())
}
