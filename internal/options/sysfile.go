package options

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options/dsm"
)

// linesOf returns the effective lines of an option file. As in IBM's client, the server that a dsm.opt names is a
// stanza of the dsm.sys beside it, whose lines come first.
func (r *resolver) linesOf(path string, f *dsm.File, name, origin string) ([]dsm.Line, error) {
	beside := filepath.Join(filepath.Dir(path), "dsm.sys")
	if !strings.EqualFold(filepath.Base(path), "dsm.opt") {
		return f.Lines(name, origin)
	}
	content, err := r.read(beside)
	if err != nil {
		return f.Lines(name, origin) // it may be missing
	}
	system, err := dsm.Parse(beside, content, vocabulary(r.table))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file and the line
	}
	server := name
	if server == "" {
		server, origin = f.Server(), path
	}
	first, err := system.Lines(server, origin)
	if errors.Is(err, dsm.ErrStanza) {
		if name == "" { // the file stands alone
			r.warnings = append(r.warnings, Warning{Origin: beside,
				Text: fmt.Sprintf("it has no SERVERNAME %s and is not used", server)})
		}
		alone, failed := f.Lines(name, origin)
		if errors.Is(failed, dsm.ErrStanza) { // the stanzas to choose from are those of dsm.sys
			return nil, err
		}
		return alone, failed
	}
	if err != nil {
		return nil, err
	}
	own, err := f.Lines(name, origin)
	if errors.Is(err, dsm.ErrStanza) {
		own, err = f.Lines("", origin)
	}
	return slices.Concat(first, own), err
}
