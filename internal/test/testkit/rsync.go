package testkit

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// RSyncCompare returns what rsync would change to make the tree b like a, by checksum and with ACLs, xattrs and hard
// links: one line each, with its error messages; none means equal. The test is skipped where rsync is missing. exclude
// holds rsync patterns, anchored at the roots by a leading slash; rsync cannot reach beyond PATH_MAX.
func RSyncCompare(t testing.TB, a, b string, exclude ...string) []string {
	t.Helper()
	program := RequireTool(t, "rsync")
	args := []string{"-aHAX", "-n", "--checksum", "--delete", "--itemize-changes"}
	for _, pattern := range exclude {
		args = append(args, "--exclude="+pattern)
	}
	out, err := exec.CommandContext(t.Context(), program, append(args, a+"/", b+"/")...).CombinedOutput()
	lines := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	if err != nil {
		lines = append(lines, fmt.Sprintf("rsync: %v", err))
	}
	return lines
}
