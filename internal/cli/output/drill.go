package output

import (
	"fmt"
	"io"

	"github.com/tidemark-backup/tidemark/internal/drill"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Drilled is the end of a restore drill.
type Drilled struct {
	Snapshots int `json:"snapshots"` // sampled
	*drill.Result
	Seed uint64 `json:"seed"` // for `--restore-sample-seed`
}

// Text writes a sentence.
func (d *Drilled) Text(w io.Writer) error {
	verdict := "all correct"
	if d.Failed > 0 {
		verdict = human.Count(d.Failed) + " WRONG"
	}
	_, err := fmt.Fprintln(w, show.Prose(w, fmt.Sprintf("restore sample: %s (%s) of %s restored and compared with their "+
		"hashes; %s of them also compared with the unchanged file on this machine: %s (seed %d)",
		human.Plural(d.Files, "file"), human.Size(d.Bytes), human.Plural(uint64(d.Snapshots), "snapshot"),
		human.Count(d.Live), verdict, d.Seed)))
	if err == nil && d.PassedOver > 0 {
		_, err = fmt.Fprintf(w, "skipped for lack of space: %s; set TMPDIR to another folder\n",
			human.Plural(d.PassedOver, "file"))
	}
	return err
}

// Events returns the record.
func (d *Drilled) Events() []any { return []any{event.Of("drill", d)} }
