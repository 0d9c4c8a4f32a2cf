// Package manual writes the man pages of the commands, and installs them where man(1) finds them.
package manual

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// WriteRoff writes one man page per command into dir. The pages show the month of date in UTC; without a date, that of
// SOURCE_DATE_EPOCH or the present.
func WriteRoff(root *cobra.Command, dir string, date time.Time) error {
	root.DisableAutoGenTag = true // the day of generation: equal commands give equal pages
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write manual: %w", err)
	}
	head := &doc.GenManHeader{Section: "1", Source: "tidemark"}
	if epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); date.IsZero() && err == nil {
		date = time.Unix(epoch, 0) // as cobra, but for the time zone
	}
	if !date.IsZero() {
		date = date.UTC()
		head.Date = &date
	}
	if err := doc.GenManTree(root, head, dir); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	return nil
}

// DefaultDir returns the folder of locally installed manuals: of the machine for root, of the user otherwise, "" if the
// home directory is unknown.
func DefaultDir(env func(string) (string, bool), uid int) string {
	if uid == 0 {
		return "/usr/local/share/man"
	}
	if data, _ := env("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "man")
	}
	if home, _ := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "man")
	}
	return ""
}

// Installed describes installed man pages.
type Installed struct {
	Dir    string `json:"directory"` // where the man pages are
	Pages  int    `json:"pages"`     // their number
	InPath bool   `json:"in_path"`   // false if `man` does not search the folder
}

// Install writes the man pages into folder man1 of the manual base.
func Install(ctx context.Context, root *cobra.Command, base string, date time.Time) (*Installed, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("install man pages: %w", err)
	}
	done := &Installed{Dir: filepath.Join(base, "man1"), Pages: pages(root)}
	if err := WriteRoff(root, done.Dir, date); err != nil {
		return nil, err
	}
	done.InPath = searched(ctx, base)
	return done, nil
}

// pages counts the commands that have a page.
func pages(c *cobra.Command) int {
	n := 1
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && !child.IsAdditionalHelpTopicCommand() {
			n += pages(child)
		}
	}
	return n
}

// searched reports false if manpath(1) knows the search path of man(1) and base is missing there.
func searched(ctx context.Context, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "manpath").Output()
	if err != nil {
		return true // no man(1), or one without manpath(1)
	}
	for _, dir := range filepath.SplitList(strings.TrimSpace(string(out))) {
		if filepath.Clean(dir) == base {
			return true
		}
	}
	return false
}
