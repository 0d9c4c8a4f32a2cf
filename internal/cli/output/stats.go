package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Stats is what was counted.
type Stats struct{ *browse.Statistics }

// Text writes the figures of the mode.
func (s *Stats) Text(w io.Writer) error {
	var b strings.Builder
	row := func(label, value string) { fmt.Fprintf(&b, "%-24s %s\n", label+":", value) }
	row("Mode", string(s.Mode))
	if s.Mode != browse.WholeRepository {
		row("Snapshots", human.Count(s.Snapshots))
	}
	switch s.Mode {
	case browse.RestoreSize:
		row("Files", human.Count(s.Files))
		row("Directories", human.Count(s.Dirs))
		row("Others", human.Count(s.Others))
		row("Size of the files", human.Size(s.Bytes))
	case browse.FilesByContents:
		row("Different contents", human.Count(s.Files))
		row("Their size", human.Size(s.Bytes))
	default:
		row("Blobs", human.Count(s.Blobs))
		row("Their size", human.Size(s.Bytes))
		row("Stored", human.Size(s.Stored))
		row("Ratio", fmt.Sprintf("%.2f", s.Ratio()))
	}
	if s.Mode == browse.WholeRepository {
		s.repository(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Stats) repository(b *strings.Builder) {
	t := table{head: []string{"Kind", "Files>", "Size>"}}
	for _, k := range s.Kinds {
		t.add(k.Kind.String(), human.Count(k.Files), human.Size(k.Bytes))
	}
	b.WriteString("\n")
	_ = t.write(b) // a strings.Builder does not fail
	if s.Damaged > 0 {
		fmt.Fprintf(b, "\n%s cannot be read: run 'tidemark check'\n", human.Plural(s.Damaged, "index segment"))
	}
}

// Events returns the record.
func (s *Stats) Events() []any {
	return []any{&event.Statistics{Type: "stats", Snapshots: s.Snapshots, FileCount: s.Files + s.Dirs + s.Others,
		RestoreSize: s.Bytes, BlobCount: s.Blobs, Uncompressed: s.uncompressed(), Stored: s.Stored, Ratio: s.Ratio(),
		Packs: s.Data.Packs + s.Trees.Packs}}
}

func (s *Stats) uncompressed() uint64 {
	if s.Stored == 0 {
		return 0
	}
	return s.Bytes
}
