package backup

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/tally"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

const (
	// manyTimes is how often the usual amount of new data is unusual.
	manyTimes = 10
	// leastGrowth is less than is worth a warning, in bytes.
	leastGrowth = 64 << 20
	// fewestBefore and mostBefore are how many earlier backups the usual amount is the median of.
	fewestBefore, mostBefore = 3, 10
	// namedFolders is how many of the folders with the most new data a warning names.
	namedFolders = 3
)

// growth is where new data of a backup lies: file data that the repository did not have, before compression. nil: it
// is not known how much is usual, so nothing is recorded.
type growth struct {
	usual uint64

	mu   sync.Mutex
	sums *tally.Tally
}

// newGrowth returns nil unless earlier backups of these sources show how much is usual.
func newGrowth(listed []repo.Listed, of *snapshot.Snapshot) *growth {
	usual, known := usualGrowth(listed, of)
	if !known {
		return nil
	}
	return &growth{usual: usual, sums: tally.New()}
}

// folder records the end of a folder: own is new data of its files, below what its subfolders have left. It returns
// what it leaves to the folder above.
func (g *growth) folder(path string, own, below uint64) (rest uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sums.Count(own)
	return g.sums.Folder(strings.TrimSuffix(path, "/")+"/", own+below)
}

// usualGrowth returns how much new data a backup of these sources stored as a rule, in bytes before compression; false:
// there were too few.
func usualGrowth(listed []repo.Listed, of *snapshot.Snapshot) (bytes uint64, known bool) {
	var before []uint64
	for _, l := range slices.Backward(listed) {
		if l.Err == nil && !l.Snapshot.Partial && l.Snapshot.Host == of.Host && len(before) < mostBefore &&
			sameSources(l.Snapshot.Asked(), of.Asked()) {
			before = append(before, l.Snapshot.Stats.Bytes.AfterDedup)
		}
	}
	if len(before) < fewestBefore {
		return 0, false
	}
	slices.Sort(before)
	return before[len(before)/2], true
}

// warning says that a backup stored many times as much new data as usual, and where most of it lies; "": it did not.
func (g *growth) warning(added uint64) string {
	if g == nil || added < leastGrowth || added/manyTimes < g.usual {
		return ""
	}
	text := fmt.Sprintf("%s of new data, at least %d times the usual %s", human.Size(added), manyTimes,
		human.Size(g.usual))
	var most []string
	for _, row := range g.sums.Rows(manyTimes) {
		if len(most) < namedFolders && row.Path != "/" {
			most = append(most, fmt.Sprintf("%s (%s)", human.Printable(row.Path), human.Size(row.Bytes)))
		}
	}
	if len(most) > 0 {
		text += ", most of it in " + strings.Join(most, ", ")
	}
	return text + ": 'tidemark analyze' shows more"
}
