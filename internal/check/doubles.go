package check

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// doublesNamed is the maximum number of packs in the note about doubles.
const doublesNamed = 5

// noteDoubles notes the packs that repeat blobs of other packs. Two machines that store the same at a time make such
// packs, and so does a machine that wants its bytes to be read in place of the good ones. Only reading shows which, so
// this is no problem. The segments are read once more if there are doubles at all.
func (c *checker) noteDoubles(ctx context.Context) error {
	again, err := c.index.Replaced()
	if again == 0 || err != nil {
		return err
	}
	repeated := make(map[format.ID]uint64) // by the pack that counts: blobs that other packs have too
	seen := make(map[format.ID]bool)
	err = c.eachSegment(ctx, func(_ object.Info, seg *index.Segment, err error) error {
		for i := 0; err == nil && i < len(seg.Packs); i++ {
			p := &seg.Packs[i]
			file := c.packs.find(p.ID)
			if file == nil || uint64(file.size) != p.Size || c.marked[p.ID] || seen[p.ID] {
				continue
			}
			seen[p.ID] = true
			if err := c.countDoubles(p, repeated); err != nil {
				return err
			}
		}
		return nil // checkIndex has recorded why a segment cannot be read
	})
	if err != nil || len(repeated) == 0 {
		return err
	}
	ids := slices.SortedFunc(maps.Keys(repeated), func(a, b format.ID) int {
		return cmp.Or(cmp.Compare(repeated[b], repeated[a]), a.Compare(b))
	})
	var names []string
	for _, id := range ids[:min(len(ids), doublesNamed)] {
		names = append(names, fmt.Sprintf("%s (%d)", id, repeated[id]))
	}
	c.found.Note("blobs that lie in more than one pack, as after backups of the same data at the same time: %s; "+
		"'--read-data' reads all copies. Restores use those in %s: %s", human.Count(again),
		human.Plural(uint64(len(ids)), "pack"), strings.Join(names, ", "))
	return nil
}

// countDoubles counts the blobs of a pack that count in other packs.
func (c *checker) countDoubles(p *index.Pack, repeated map[format.ID]uint64) error {
	found, err := c.index.Locate(nil, p.Table.IDs())
	if err != nil {
		return err
	}
	for i := range found {
		if found[i].Lost() || found[i].Rank() != named {
			continue
		}
		at, err := c.index.Found(&found[i])
		if err != nil {
			return err
		}
		if at.Pack.ID != p.ID {
			repeated[at.Pack.ID]++
		}
	}
	return nil
}
