package closure

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/check/finding"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

var (
	// errLost ends the reading of a folder of which a page is lost, after the loss was recorded.
	errLost         = errors.New("lost")
	errNowhere      = errors.New("it is in no pack of this repository")
	errInconsistent = errors.New("a file's chunks do not add up to its size")
)

// Closure is what following snapshots takes.
type Closure struct {
	Blobs    *Blobs
	Book     *finding.Book
	Keys     *seal.Keys
	Ledger   *report.Ledger // where the time is booked
	Parallel int            // folders looked at together, at least 1
}
