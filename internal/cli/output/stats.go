package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Stats is the result of stats: the figures of its mode, and the cost unless prices is nil.
func Stats(s *browse.Statistics, prices *browse.Prices) Record {
	return one("stats", statsEvent(s, prices), func(w *show.Page) { writeStats(w, s, prices) })
}

func writeStats(w *show.Page, s *browse.Statistics, prices *browse.Prices) {
	row := func(label, value string) { fmt.Fprintf(w, "%-24s %s\n", label+":", value) }
	row("Mode", string(s.Mode))
	if s.Mode != browse.WholeRepository {
		row("Snapshots", human.Count(s.Snapshots))
	}
	switch s.Mode {
	case browse.RestoreSize:
		row("Files", human.Count(s.Files))
		row("Directories", human.Count(s.Dirs))
		row("Others", human.Count(s.Others))
		row("Size", human.Size(s.Bytes))
	case browse.FilesByContents:
		row("Different contents", human.Count(s.Files))
		row("Size", human.Size(s.Bytes))
	default:
		row("Blobs", human.Count(s.Blobs))
		row("Size", human.Size(s.Bytes))
		row("Stored", human.Size(s.Stored))
		row("Ratio", fmt.Sprintf("%.2f", s.Ratio()))
	}
	if s.Mode == browse.WholeRepository {
		writeRepository(w, s)
	}
	fmt.Fprintf(w, "\n%s\n", w.Prose(meaning(s.Mode)))
	if prices != nil {
		writeCost(w, s, prices)
	}
}

// meaning says what the sizes of a mode are.
func meaning(mode browse.Mode) string {
	switch mode {
	case browse.RestoreSize:
		return "Sizes are file sizes as a restore of each snapshot writes them: before deduplication and compression."
	case browse.FilesByContents:
		return "Sizes are file sizes, with equal files counted once: before deduplication of parts of files and compression."
	case browse.RawData:
		return "Sizes are after deduplication: before compression, and as stored (compressed and encrypted)."
	case browse.Unique:
		return "Sizes are those of data that no other snapshot needs: before compression, and its share of what is stored."
	}
	return "Sizes of blobs are after deduplication: before compression, and as stored (compressed and encrypted). " +
		"Sizes in the table are those of the stored files."
}

func writeRepository(w *show.Page, s *browse.Statistics) {
	fmt.Fprintf(w, "%-24s %s on average\n", "Chunk size:", human.Size(uint64(s.ChunkSize)))
	t := table{head: []string{"Kind", "Files>", "Size>"}}
	for _, k := range s.Kinds {
		t.add(k.Kind.String(), human.Count(k.Files), human.Size(k.Bytes))
	}
	fmt.Fprintln(w)
	t.write(w)
	if s.Damaged > 0 {
		fmt.Fprintf(w, "\n%s cannot be read: run 'tidemark check'\n", human.Plural(s.Damaged, "index file"))
	}
}

func writeCost(w *show.Page, s *browse.Statistics, prices *browse.Prices) {
	fmt.Fprintf(w, "\n%-24s %.2f for storage\n\n", "Cost of a month:", s.Month(*prices))
	t := table{head: []string{"Estimate of a run", "Put, list>", "Get>", "Delete>", "Read>", "Cost>"}}
	for _, r := range s.Runs(*prices) {
		t.add(r.Name, human.Count(r.Requests.Put), human.Count(r.Requests.Get), human.Count(r.Requests.Delete),
			human.Size(r.Out), fmt.Sprintf("%.4f", r.Cost))
	}
	t.write(w)
}

func statsEvent(s *browse.Statistics, prices *browse.Prices) *event.Statistics {
	e := &event.Statistics{Mode: string(s.Mode), Snapshots: s.Snapshots,
		FileCount: s.Objects(), RestoreSize: s.Bytes, BlobCount: s.Blobs, Stored: s.Stored,
		Ratio: s.Ratio(), Packs: s.Data.Packs + s.Trees.Packs, ChunkSize: s.ChunkSize}
	if s.Stored > 0 {
		e.Uncompressed = s.Bytes
	}
	if prices != nil {
		month := s.Month(*prices)
		e.Month, e.Costs = &month, s.Runs(*prices)
	}
	return e
}
