package check

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// misplacedNoted is the maximum number of misplaced files of a kind that a check names.
const misplacedNoted = 20

// misplaced are packs in the folder of other packs, as after a wrong move by hand, and folders with the name of a file,
// by their path. The zero value is ready, for several goroutines.
type misplaced struct {
	mu    sync.Mutex
	names map[string]store.Name // at most misplacedNoted
	more  bool
}

func (m *misplaced) add(name store.Name, where string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = make(map[string]store.Name)
	}
	if _, known := m.names[where]; !known && len(m.names) == misplacedNoted {
		m.more = true
		return
	}
	m.names[where] = name
}

// note reports where they are and where they belong.
func (m *misplaced) note(found *findings) {
	for _, where := range slices.Sorted(maps.Keys(m.names)) {
		if folder, is := strings.CutSuffix(where, "/"); is {
			found.Note("%s is a folder in the place of a file, and no command reads it: remove it", folder)
			continue
		}
		found.Note("%s lies in the folder of other packs, where no command looks for it: move it to %s, or "+
			"remove it if that exists", where,
			m.names[where].Path())
	}
	if m.more {
		found.Note("more files than these are misplaced")
	}
}
