package show

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// screen is the part of a terminal that the Printer relies on: text, line ends, moving up and erasing below, on paper
// without end. A line longer than the width is an error, since a real terminal would wrap it.
type screen struct {
	t        *testing.T
	width    int
	rows     [][]rune
	row, col int
}

func (s *screen) Write(p []byte) (int, error) {
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		for len(s.rows) <= s.row {
			s.rows = append(s.rows, nil)
		}
		switch text[i] {
		case '\n': // the terminal driver turns it into CR LF
			s.row, s.col = s.row+1, 0
		case '\r':
			s.col = 0
		case '\x1b':
			require.Equal(s.t, '[', text[i+1])
			end := i + 2
			for text[end] >= '0' && text[end] <= '9' || text[end] == '?' {
				end++
			}
			switch text[end] {
			case 'A':
				n, err := strconv.Atoi(string(text[i+2 : end]))
				require.NoError(s.t, err)
				require.LessOrEqual(s.t, n, s.row, "up beyond the top")
				s.row -= n
			case 'J':
				require.False(s.t, s.row == 0 && s.col == 0, "tmux keeps a copy of the whole screen")
				s.rows = s.rows[:s.row+1]
				s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			case 'K':
				s.rows[s.row] = s.rows[s.row][:min(s.col, len(s.rows[s.row]))]
			case 'm', 'l', 'h': // colours; whether lines wrap
			default:
				s.t.Fatalf("unknown sequence %q", string(text[i:end+1]))
			}
			i = end
		default:
			for len(s.rows[s.row]) <= s.col {
				s.rows[s.row] = append(s.rows[s.row], ' ')
			}
			s.rows[s.row][s.col] = text[i]
			s.col++
			require.Less(s.t, s.col, s.width, "a line as wide as the terminal")
		}
	}
	return len(p), nil
}

func (s *screen) text() string {
	var lines []string
	for _, r := range s.rows {
		lines = append(lines, string(r))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func plainLines(texts ...string) (lines []Line) {
	for _, text := range texts {
		lines = append(lines, Line{Text: text})
	}
	return lines
}

func fixed(w, h int) func() (int, int) { return func() (int, int) { return w, h } }

func TestPrinterKeepsBlockBeneathMessages(t *testing.T) {
	s := &screen{t: t, width: 20}
	p := NewPrinter(s, fixed(20, 10), false)
	fmt.Fprint(p, "unfinished")
	p.Show(plainLines("one", "two", "three"))
	require.Equal(t, "unfinished\none\ntwo\nthree", s.text())
	fmt.Fprintln(p, "message")
	require.Equal(t, "unfinished\nmessage\none\ntwo\nthree", s.text())
	p.Show(plainLines("1"))
	require.Equal(t, "unfinished\nmessage\n1", s.text())
	fmt.Fprint(p.Through(s), "half")
	require.Equal(t, "unfinished\nmessage\nhalf\n1", s.text())
	p.Show(plainLines("a line that is longer than the screen is wide"))
	require.Equal(t, "unfinished\nmessage\nhalf\na line that is lon…", s.text())
	p.Clear()
	p.Clear()
	require.Equal(t, "unfinished\nmessage\nhalf", s.text())
	fmt.Fprintln(p, "end")
	require.Equal(t, "unfinished\nmessage\nhalf\nend", s.text())
}

func TestPrinterRandomly(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := &screen{t: t, width: 40}
		p := NewPrinter(s, fixed(40, 6), false)
		var messages []string
		var block []string
		for i := range 100 {
			switch r.IntN(3) {
			case 0:
				n := 1 + r.IntN(3)
				for j := range n {
					messages = append(messages, fmt.Sprintf("message %d.%d", i, j))
				}
				fmt.Fprintln(p, strings.Join(messages[len(messages)-n:], "\n"))
			case 1:
				block = nil
				for j := range r.IntN(8) {
					block = append(block, fmt.Sprintf("block %d.%d %s", i, j, strings.Repeat("x", r.IntN(20))))
				}
				p.Show(plainLines(block...))
				block = block[:min(len(block), 5)]
			default:
				p.Show(plainLines(block...))
			}
			require.Equal(t, strings.Join(append(append([]string{}, messages...), block...), "\n"), s.text(), "seed %d", seed)
		}
	}
}

// The cursor waits at the start of the block: what a narrower terminal wraps lies below it.
func TestPrinterWaitsAtTheStartOfTheBlock(t *testing.T) {
	var out strings.Builder
	p := NewPrinter(&out, fixed(40, 10), false)
	p.Show(plainLines(strings.Repeat("a", 30), "b"))
	require.True(t, strings.HasSuffix(out.String(), "b\x1b[?7h\r\x1b[1A"), out.String())
	out.Reset()
	p.Clear()
	require.Equal(t, "\r\x1b[K\r\n\x1b[J\x1b[1A", out.String())
}

func TestPrinterSurvivesABrokenTerminal(t *testing.T) {
	r, w := io.Pipe()
	require.NoError(t, r.Close())
	p := NewPrinter(w, fixed(80, 24), false)
	p.Show(plainLines("x"))
	p.Show(plainLines("y"))
	_, err := fmt.Fprintln(p, "z")
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
