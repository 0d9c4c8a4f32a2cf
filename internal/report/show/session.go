package show

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// WriteSession writes the report of a finished job: TSM's lines with TSM's labels, then further lines, where the time
// went, the bottleneck, and how the job yielded.
func WriteSession(b *Page, t *report.Totals) {
	writeRows(b, sessionRows(t))
	writeTable(b, "Elapsed time by phase", t.Phases[:], func(i int) string { return report.Phase(i).String() })
	writeTable(b, "Where the time of the workers went", t.Stages[:],
		func(i int) string { return report.Stage(i).String() })
	if sentence := Bottleneck(t); sentence != "" {
		b.WriteString("\n" + b.Prose(sentence) + "\n")
	}
	writeGates(b, t)
}

// row is a line of the report. Numbers are aligned on their right, units follow.
type row struct{ label, number, unit string }

func sessionRows(t *report.Totals) []row {
	switch t.Job {
	case report.Restore:
		return append(restoreRows(t), transferRows(t)...)
	case report.Check:
		return append(checkRows(t), transferRows(t)...)
	case report.Prune, report.Copy:
		return append([]row{amount("Bytes added to the repository", t.Bytes.Stored)}, transferRows(t)...)
	}
	return append(backupRows(t), ownRows(t)...)
}

func count(label string, n uint64) row { return row{label: label, number: human.Count(n)} }

func amount(label string, n uint64) row {
	number, unit := human.SizeParts(n)
	return row{label, number, unit}
}

func velocity(label string, n uint64, d time.Duration) row {
	number, unit := human.RateParts(n, d)
	return row{label, number, unit}
}

// percent is a line with a gain; a loss is none.
func percent(label string, ratio float64) row {
	return row{label, fmt.Sprintf("%.2f", max(0, ratio)*100), "%"}
}

func seconds(label string, d time.Duration) row { return row{label, human.Grouped(d.Seconds()), "s"} }

// backupRows are TSM's lines, in TSM's order.
func backupRows(t *report.Totals) []row {
	o, b := &t.Objects, &t.Bytes
	rows := []row{
		count("Total number of objects inspected", o.Inspected),
		count("Total number of objects backed up", o.BackedUp),
		count("Total number of objects updated", o.Updated),
		count("Total number of objects rebound", o.Rebound),
		count("Total number of objects deleted", o.Deleted),
		count("Total number of objects expired", o.Expired),
		count("Total number of objects failed", o.Failed-t.Doubted),
		count("Total number of objects encrypted", o.Encrypted),
		count("Total number of objects deduplicated", o.Deduplicated),
		count("Total number of objects grew", o.Grew),
		count("Total number of retries", o.Retries),
		amount("Total number of bytes inspected", b.Inspected),
		amount("Total number of bytes processed", b.Processed),
		amount("Total bytes before deduplication", b.BeforeDedup),
		amount("Total bytes after deduplication", b.AfterDedup),
	}
	rows = append(rows, transferRows(t)...)
	d, last := t.Derive(), len(rows)-1
	return append(rows[:last:last],
		percent("Objects compressed by", d.CompressedBy),
		percent("Deduplication reduction", d.DedupReduction),
		percent("Total data reduction ratio", d.TotalReduction),
		rows[last])
}

// transferRows are the lines about the wire and the clock, which all jobs have.
func transferRows(t *report.Totals) []row {
	d := t.Derive()
	rows := []row{
		amount("Total number of bytes transferred", d.Moved),
		seconds("Data transfer time", d.TransferTime),
		velocity("Network data transfer rate", d.Moved, d.TransferTime),
		velocity("Aggregate data transfer rate", d.Moved, t.Elapsed),
	}
	if t.Outage.Took >= report.LeastOutage {
		rows = append(rows, seconds("Time without an answer of the target", t.Outage.Took))
	}
	if n := t.Limits.Upload; n > 0 {
		rows = append(rows, velocity("Limit of the upload rate", uint64(n), time.Second))
	}
	if n := t.Limits.Download; n > 0 {
		rows = append(rows, velocity("Limit of the download rate", uint64(n), time.Second))
	}
	if r := t.Requests; r != (report.Requests{}) {
		rows = append(rows, row{"Requests to put, to get, to delete",
			human.Count(r.Put) + " / " + human.Count(r.Get) + " / " + human.Count(r.Delete), ""})
	}
	return append(rows, row{"Elapsed processing time", human.Clocked(t.Elapsed), ""})
}

// ownRows are lines of a backup that TSM does not have.
func ownRows(t *report.Totals) []row {
	o := &t.Objects
	rows := []row{
		{},
		count("Objects unchanged", o.Unchanged),
		count("Objects excluded by rules", o.Excluded),
		count("Objects that changed while being read", o.Changing),
		kinds("Files new, changed, unmodified", t.Files),
		kinds("Directories new, changed, unmodified", t.Dirs),
		kinds("Others new, changed, unmodified", t.Others),
		count("Chunks new", t.Blobs.New),
		count("Chunks known", t.Blobs.Known),
		count("Trees new", t.Trees.New),
		count("Trees reused", t.Trees.Reused),
		amount("Bytes read from files", t.Bytes.Read),
		amount("Bytes added to the repository", t.Bytes.Stored),
	}
	if t.Doubted > 0 {
		rows = append(rows, count("Sources incomplete", t.Doubted))
	}
	return append(rows, row{"Objects inspected per second", human.Grouped(report.PerSecond(o.Inspected, t.Elapsed)), "/s"})
}

func kinds(label string, c report.ComparedOf[uint64]) row {
	return row{label, human.Count(c.New) + " / " + human.Count(c.Changed) + " / " + human.Count(c.Unmodified), ""}
}

func restoreRows(t *report.Totals) []row {
	o := &t.Objects
	return []row{
		count("Total number of objects restored", o.Restored),
		count("Total number of objects left as they were", o.Kept),
		count("Total number of objects deleted", o.Deleted),
		count("Total number of objects failed", o.Failed),
		count("Total number of remarks", t.Notes),
		amount("Total number of bytes restored", t.Bytes.Written),
	}
}

func checkRows(t *report.Totals) []row {
	return []row{
		count("Total number of objects verified", t.Objects.Verified),
		count("Total number of objects damaged", t.Objects.Damaged),
		count("Total number of problems", t.Failures),
		count("Total number of remarks", t.Notes),
		amount("Total number of bytes verified", t.Bytes.Verified),
	}
}

// writeRows writes labels, numbers and units in three aligned columns.
func writeRows(b *Page, rows []row) {
	var label, number int
	for _, r := range rows {
		label, number = max(label, utf8.RuneCountInString(r.label)), max(number, len(r.number))
	}
	for _, r := range rows {
		if r.label == "" {
			b.WriteByte('\n')
			continue
		}
		line := fmt.Sprintf("%-*s  %*s %s", label+1, r.label+":", number, r.number, r.unit)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// shownTime is the minimum time of a line whose share is 0.0 %: "0.00 s 0.0 %" says nothing.
const shownTime = 5 * time.Millisecond

// writeTable writes a table of times that add up to 100.0 %.
func writeTable(b *Page, title string, times []time.Duration, name func(int) string) {
	var total time.Duration
	shares := make([]float64, len(times))
	for i, d := range times {
		total += d
		shares[i] = float64(d)
	}
	if total <= 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for i, p := range human.Percentages(shares) {
		if d := times[i]; d >= shownTime || p != "0.0" {
			fmt.Fprintf(b, "  %-30s %14s s %6s %%\n", name(i), human.Grouped(d.Seconds()), p)
		}
	}
	fmt.Fprintf(b, "  %-30s %14s s %6s %%\n", "total", human.Grouped(total.Seconds()), "100.0")
}

// Bottleneck names the bottleneck of the job in a sentence, empty if no worker had work. Its share excludes idle time.
// A job that slept for most of the time was limited by the processes it yielded to, whatever stage its workers slept
// in.
func Bottleneck(t *report.Totals) string {
	if g, share := t.StoodStill(); g != nil {
		return fmt.Sprintf("Bottleneck: yielding to %s. The job was stalled for %.0f %% of the elapsed time.",
			g.Whom(), share*100)
	}
	r, share := t.Stages.Bottleneck()
	what, hint := map[report.Resource]string{
		report.Finding: "finding out what there is and what changed", report.Reading: "reading files from the source",
		report.Computing: "the processor", report.Repository: "the repository", report.Writing: "writing to the target",
		report.Memory: "the memory budget",
	}[r], ""
	switch s := t.Stages.Busiest(r); {
	case r == report.Nothing:
		return ""
	case r == report.Computing && s != report.Idle:
		what += ", mostly " + s.String()
	case r == report.Repository && t.Limits != (report.Limits{}):
		what += ", whose transfer rate is limited"
	case r == report.Memory:
		hint = " More may help (--memory)."
	}
	return fmt.Sprintf("Bottleneck: %s. %.0f %% of the workers' time was spent on it or waiting for it.%s",
		what, share*100, hint)
}
