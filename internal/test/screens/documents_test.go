package screens

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

// masked drops from a line what differs between runs and machines: numbers, units, IDs, disks, and, while a job runs,
// what it does and what it waits for.
func masked(line string) string {
	for _, m := range [][2]string{
		{`^snapshot [0-9a-f]{8}`, "snapshot ID"}, {` on \S+ \([a-z]+\)`, " on DISK"}, {`(, )?(about|more than) .* left`, ""},
		{`; limited to .* up$`, ""},
		{`[0-9][0-9.,:]*`, "N"}, {`N ([KMGT]i)?B\b`, "N B"}, {`N (min|s)( N s)?\b`, "N s"}, {`(~|at most )N`, "N"},
		{`^(reading|scanning|hashing|storing|writing|waiting|comparing|counting|sending|uploading).*`, "ACTIVITY"},
		{`^yielding to .* on DISK.*`, "yielding to PROGRAM on DISK"},
	} {
		line = regexp.MustCompile(m[0]).ReplaceAllString(line, m[1])
	}
	return line
}

// documents: each line of the screens in the README and in docs/throttling.md is a line of the captured screen.
func (s screens) documents() {
	count := 0
	for _, name := range []string{"README.md", "docs/throttling.md"} {
		text, err := os.ReadFile(filepath.Join("../../..", name))
		require.NoError(s.t, err)
		for _, block := range regexp.MustCompile("(?s)```screen (\\w+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			var there []string
			for _, line := range s.lines(block[1]) {
				there = append(there, masked(line))
			}
			for line := range strings.Lines(block[2]) {
				require.Contains(s.t, there, masked(strings.TrimSuffix(line, "\n")), name)
				count++
			}
		}
	}
	require.Greater(s.t, count, 9)
}
