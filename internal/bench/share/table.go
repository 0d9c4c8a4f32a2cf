package share

import (
	"fmt"
	"math"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// number writes three digits.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// compared is a table of one value of each case, with its ratio to that of the first.
func (b *bench) compared(measurement string, key, unit string) string {
	names := b.Cases(measurement)
	lines := [][]string{{"", unit, "of the first"}}
	for _, name := range names {
		lines = append(lines, []string{
			name, number(b.Value(measurement, name, key)), number(b.Ratio(measurement, name, names[0], key)),
		})
	}
	return kit.Table(lines[0], lines[1:]...)
}

func (b *bench) packsTable() string { return b.compared(ofPacks, "rate", "MB/s") }
func (b *bench) lineTable() string  { return b.compared(ofLine, "rate", "MB/s") }
func (b *bench) smallTable() string { return b.compared(ofSmall, "files", "files/s") }

func (b *bench) backupsTable() string {
	lines := [][]string{{"", "s", "of the folder's", "processor, s", "of the folder's"}}
	for _, name := range b.Cases(ofBackups) {
		_, kind, _ := cutLast(name, ", ")
		base := "folder, " + kind
		lines = append(lines, []string{
			name, number(b.Value(ofBackups, name, "seconds")), number(b.Ratio(ofBackups, name, base, "seconds")),
			number(b.Value(ofBackups, name, "cpu")), number(b.Ratio(ofBackups, name, base, "cpu")),
		})
	}
	return kit.Table(lines[0], lines[1:]...)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func (b *bench) countsTable() string {
	lines := [][]string{{"", "requests", "waited for in a row", "which"}}
	for _, name := range b.Cases(ofCounts) {
		var which []string
		for _, command := range smbtest.CommandNames() {
			if n := b.Value(ofCounts, name, command); !math.IsNaN(n) {
				which = append(which, number(n)+" "+command)
			}
		}
		lines = append(lines, []string{
			name, number(b.Value(ofCounts, name, "requests")), number(b.Value(ofCounts, name, "round trips")),
			strings.Join(which, ", "),
		})
	}
	return kit.Table(lines[0], lines[1:]...)
}
