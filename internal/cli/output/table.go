package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// table aligns columns: left, or right where the heading ends with '>'. A cell may have several lines. Where a terminal
// is too narrow, cells below a heading that ends with '~' are shortened in their middle, and those below '|' are broken
// at words; all other columns, such as times and verdicts, stay whole.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// The least width to which a column is shortened, and the length of the words that are never cut, in columns.
const (
	narrowest   = 8
	longestWord = 14
)

// write lays the table out: headings, a rule, the rows.
func (t *table) write(w *show.Page) {
	widths := make([]int, len(t.head))
	marks := make([]string, len(t.head))
	head := make([]string, len(t.head))
	for i, h := range t.head {
		head[i] = strings.TrimRight(h, ">~|")
		marks[i], widths[i] = h[len(head[i]):], human.Columns(head[i])
	}
	var lines [][]string
	for _, row := range t.rows {
		lines = append(lines, unfold(row)...)
	}
	for i := range widths {
		for _, line := range lines {
			widths[i] = max(widths[i], human.Columns(line[i]))
		}
	}
	if fit(widths, t.least(head, marks), w.Width) {
		lines = nil
		for _, row := range t.rows {
			lines = append(lines, unfold(narrowed(row, widths, marks))...)
		}
	}
	total := 2 * (len(widths) - 1)
	for i := range widths {
		total += widths[i]
	}
	writeLine(w, head, widths, marks)
	fmt.Fprintln(w, strings.Repeat("-", total))
	for _, line := range lines {
		writeLine(w, line, widths, marks)
	}
}

// least returns the least width of each column: 0 of one that stays whole, otherwise at least that of its heading, and
// of a word if it is broken at words.
func (t *table) least(head, marks []string) []int {
	least := make([]int, len(marks))
	for i, mark := range marks {
		if mark != "~" && mark != "|" {
			continue
		}
		least[i] = max(narrowest, human.Columns(head[i]))
		for _, row := range t.rows {
			for word := range strings.FieldsSeq(row[i]) {
				if n := human.Columns(word); mark == "|" && n <= longestWord {
					least[i] = max(least[i], n)
				}
			}
		}
	}
	return least
}

// fit makes columns narrower, the widest first, until a line has at most width columns, and reports whether any became
// so. A column with the least width 0 stays.
func fit(widths, least []int, width int) (changed bool) {
	over := 2*(len(widths)-1) - width
	for _, w := range widths {
		over += w
	}
	for ; width > 0 && over > 0; over-- {
		widest := -1
		for i := range widths {
			if least[i] > 0 && widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
		changed = true
	}
	return changed
}

// narrowed returns the cells of a row as their columns hold them.
func narrowed(row []string, widths []int, marks []string) []string {
	out := slices.Clone(row)
	for i, mark := range marks {
		if mark == "|" {
			out[i] = human.Wrap(row[i], widths[i]) // which leaves long words
		}
		if mark == "|" || mark == "~" {
			parts := strings.Split(out[i], "\n")
			for k := range parts {
				parts[k] = human.CutMiddle(parts[k], widths[i])
			}
			out[i] = strings.Join(parts, "\n")
		}
	}
	return out
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

func writeLine(w *show.Page, cells []string, widths []int, marks []string) {
	line := ""
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-human.Columns(cell))
		if marks[i] == ">" {
			cell = pad + cell
		} else {
			cell += pad
		}
		if i > 0 {
			line += "  "
		}
		line += cell
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}
