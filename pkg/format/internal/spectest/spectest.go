// Package spectest is what the tests of the codecs share: it reads the tables of a SPEC.md, so that a test can hold
// them against the constants of the code; it keeps golden vectors as hexadecimal text; and it flips bits. It knows no
// format.
package spectest

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The one variable: a flag of `go test` can only be declared before the test binary parses its command line.
var update = flag.Bool("update", false, "rewrite the golden vectors in testdata")

// Row is one row of a table: the text of each cell under the title of its column, without backquotes.
type Row map[string]string

// Table returns the rows of the table that follows the given heading in a markdown file. The heading is named without
// its number signs; the test fails if the file has no such heading or the section has no table.
func Table(t testing.TB, path, heading string) []Row {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var titles []string
	var rows []Row
	inSection := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			inSection = strings.TrimSpace(strings.TrimLeft(line, "#")) == heading
		case !inSection || !strings.HasPrefix(line, "|"):
			if len(rows) > 0 {
				return rows
			}
		case titles == nil:
			titles = cells(line)
		case strings.Trim(line, "|-: ") == "": // the rule beneath the titles
		default:
			values := cells(line)
			require.Len(t, values, len(titles), "%s: section %q: row %q", path, heading, line)
			row := make(Row, len(titles))
			for i, title := range titles {
				row[title] = values[i]
			}
			rows = append(rows, row)
		}
	}
	require.NotEmpty(t, rows, "%s: section %q has no table", path, heading)
	return rows
}

func cells(line string) []string {
	parts := strings.Split(strings.Trim(line, "|"), "|")
	for i := range parts {
		parts[i] = strings.Trim(strings.TrimSpace(parts[i]), "`")
	}
	return parts
}

// Numbers returns two columns of a table as a map: the text of one to the number in the other. Numbers are decimal or
// 0x hexadecimal; each key may occur once.
func Numbers(t testing.TB, path, heading, key, value string) map[string]uint64 {
	t.Helper()
	numbers := map[string]uint64{}
	for _, row := range Table(t, path, heading) {
		require.Contains(t, row, key, "%s: section %q: column", path, heading)
		require.Contains(t, row, value, "%s: section %q: column", path, heading)
		n, err := strconv.ParseUint(row[value], 0, 64)
		require.NoError(t, err, "%s: section %q: %s", path, heading, row[key])
		require.NotContains(t, numbers, row[key], "%s: section %q", path, heading)
		numbers[row[key]] = n
	}
	return numbers
}

// Texts returns two columns of a table as a map. Each key may occur once.
func Texts(t testing.TB, path, heading, key, value string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, row := range Table(t, path, heading) {
		require.Contains(t, row, key, "%s: section %q: column", path, heading)
		require.Contains(t, row, value, "%s: section %q: column", path, heading)
		require.NotContains(t, texts, row[key], "%s: section %q", path, heading)
		texts[row[key]] = row[value]
	}
	return texts
}

// Golden compares got with testdata/name.hex and returns the bytes of that file. With -update it writes the file first.
func Golden(t testing.TB, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, dump(got), 0o644))
	}
	want := Vector(t, name)
	require.Equal(t, hex.Dump(want), hex.Dump(got), "%s: the encoder no longer writes these bytes", path)
	return want
}

// Vector returns the bytes of testdata/name.hex.
func Vector(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	require.NoError(t, err, "run the test with -update to make a new vector")
	data, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	require.NoError(t, err)
	return data
}

// dump writes 32 bytes a line, so that the difference of two versions of a vector can be read.
func dump(p []byte) []byte {
	var out bytes.Buffer
	for len(p) > 0 {
		n := min(len(p), 32)
		out.WriteString(hex.EncodeToString(p[:n]))
		out.WriteByte('\n')
		p = p[n:]
	}
	return out.Bytes()
}

// FlipBits calls check once for every bit of data, with a copy in which that bit is flipped. In a short run (-short) it
// takes one bit of each byte.
func FlipBits(data []byte, check func(byteIndex int, mutated []byte)) {
	for i := range data {
		for bit := range 8 {
			if testing.Short() && bit != i%8 {
				continue
			}
			mutated := bytes.Clone(data)
			mutated[i] ^= 1 << bit
			check(i, mutated)
		}
	}
}

// Allocated returns how many bytes were allocated while work ran, by all goroutines. A decoder's test compares it with
// the length of its input.
func Allocated(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
