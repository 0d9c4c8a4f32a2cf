package output

import (
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// table aligns columns: left, or right where the heading ends with '>'. A cell may have several lines.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write lays the table out: headings, a rule, the rows.
func (t *table) write(w io.Writer) error {
	widths := make([]int, len(t.head))
	right := make([]bool, len(t.head))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i], right[i] = strings.TrimSuffix(h, ">"), strings.HasSuffix(h, ">")
		widths[i] = human.Columns(head[i])
	}
	var lines [][]string
	for _, row := range t.rows {
		lines = append(lines, unfold(row)...)
	}
	total := 2 * (len(widths) - 1)
	for i := range widths {
		for _, line := range lines {
			widths[i] = max(widths[i], human.Columns(line[i]))
		}
		total += widths[i]
	}
	var b strings.Builder
	writeLine(&b, head, widths, right)
	b.WriteString(strings.Repeat("-", total) + "\n")
	for _, line := range lines {
		writeLine(&b, line, widths, right)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// unfold makes lines of a row whose cells have several.
func unfold(row []string) [][]string {
	var lines [][]string
	for i, cell := range row {
		for k, part := range strings.Split(cell, "\n") {
			if k == len(lines) {
				lines = append(lines, make([]string, len(row)))
			}
			lines[k][i] = part
		}
	}
	return lines
}

func writeLine(b *strings.Builder, cells []string, widths []int, right []bool) {
	line := ""
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-human.Columns(cell))
		if right[i] {
			cell = pad + cell
		} else {
			cell += pad
		}
		if i > 0 {
			line += "  "
		}
		line += cell
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
