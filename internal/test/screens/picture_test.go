package screens

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// The measures of a picture, in units of SVG.
const (
	column, row = 8.4, 18
	margin      = 12
)

// palettes are the colours on a light and on a dark background.
const palettes = `<style>
text { font: 14px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
rect { fill: #ffffff; stroke: #d1d9e0 } .bold { font-weight: bold } .red { font-weight: bold; fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } rect { fill: #0d1117; stroke: #3d444d } .red { fill: #ff7b72 }
}
</style>
`

// TestPicture draws captured screens into the file that TIDEMARK_PICTURE names: `make screens-picture`.
func TestPicture(t *testing.T) {
	file := os.Getenv("TIDEMARK_PICTURE")
	if file == "" {
		t.Skip("'make screens-picture' runs it")
	}
	folder := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "./capture.sh", build(t), folder, "80", "24", "colors").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var all [][]string
	for _, name := range []string{"first-running", "yielding", "first", "error"} {
		all = append(all, screens{t, folder, 80}.lines(name))
	}
	require.NoError(t, os.WriteFile(file, draw(all, 80), 0o644))
}

// draw returns a picture of screens, one below the other.
func draw(all [][]string, width int) []byte {
	var b bytes.Buffer
	y := 0
	for _, lines := range all {
		height := len(lines)*row + 2*margin
		fmt.Fprintf(&b, `<rect x="0.5" y="%d.5" width="%.0f" height="%d" rx="6"/>`+"\n", y, float64(width)*column+2*margin,
			height)
		class := ""
		for i, line := range lines {
			class = drawLine(&b, line, float64(y+margin+i*row+row-5), class)
		}
		y += height + margin
	}
	size := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img">`+"\n",
		float64(width)*column+2*margin+1, y-margin+1)
	return []byte(size + "<title>What a terminal shows of a backup</title>\n" + palettes + b.String() + "</svg>\n")
}

// drawLine draws a line of a terminal with its escape sequences, each piece at its column, and returns the style at its
// end, where the next line begins with it.
func drawLine(b *bytes.Buffer, line string, y float64, class string) string {
	at := 0
	sequence := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for line != "" {
		place := sequence.FindStringIndex(line)
		if place == nil {
			place = []int{len(line), len(line)}
		}
		text, set := line[:place[0]], line[place[0]:place[1]]
		shown := strings.TrimLeft(text, " ")
		if n := human.Columns(shown); n > 0 {
			fmt.Fprintf(b, `<text x="%.1f" y="%.0f" textLength="%.1f"%s>%s</text>`+"\n",
				margin+float64(at+len(text)-len(shown))*column, y, float64(n)*column, class, html.EscapeString(shown))
		}
		at += human.Columns(text)
		line = line[place[1]:]
		switch {
		case strings.Contains(set, "31"):
			class = ` class="red"`
		case strings.Contains(set, "1"):
			class = ` class="bold"`
		case set != "":
			class = ""
		}
	}
	return class
}

// TestDraw: a picture has each piece of a line at its column, in its style, and the palettes of both backgrounds.
func TestDraw(t *testing.T) {
	text := string(draw([][]string{{"\x1b[1mdone <1>\x1b[0m, then", "\x1b[1m\x1b[31mfailed", "  too\x1b[0m"}, {"$ "}}, 80))
	require.Contains(t, text, `<text x="12.0" y="25" textLength="67.2" class="bold">done &lt;1&gt;</text>`)
	require.Contains(t, text, `<text x="79.2" y="25" textLength="50.4">, then</text>`)
	require.Contains(t, text, `class="red">failed</text>`)
	require.Contains(t, text, `<text x="28.8" y="61" textLength="25.2" class="red">too</text>`)
	require.Contains(t, text, "prefers-color-scheme: dark")
	require.Contains(t, text, `viewBox="0 0 697 133"`)
	require.NotContains(t, text, "\x1b")
	require.Equal(t, 2, strings.Count(text, "<rect x"))
}

// build returns the program.
func build(t *testing.T) string {
	program := filepath.Join(t.TempDir(), "tidemark")
	testkit.Build(t, "tidemark", program)
	return program
}
