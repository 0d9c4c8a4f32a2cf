package output

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/repo/caches"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
)

// Cache is a cache folder and what became of it.
type Cache struct {
	caches.Cache
	Gone    bool `json:"repository_gone"` // the repository is not there now
	Old     bool `json:"-"`               // unused for the time after which --cleanup removes it
	Removed bool `json:"removed"`         // in a dry run: would be
}

// Caches is a list of the cache folders in dir: a table and the sum, and a record for each.
func Caches(dir string, list []Cache, cleanup, dry bool) Record {
	var all []any
	for _, one := range list {
		one.Path, _ = event.Escape(one.Path)
		one.Location, _ = event.Escape(one.Location)
		all = append(all, event.Of("cache", &one))
	}
	return &result{func(w *show.Page) { writeCaches(w, dir, list, cleanup, dry) }, all}
}

func writeCaches(w *show.Page, dir string, list []Cache, cleanup, dry bool) {
	t := table{head: []string{"Repository", "Last used", "Location~", "Size>", ""}}
	var bytes, freed, removed, old uint64
	for i := range list {
		one := &list[i]
		size, note := uint64(one.Bytes), ""
		bytes += size
		switch {
		case one.Removed:
			note = would(dry, "removed")
			removed++
			freed += size
		case one.InUse:
			note = "in use"
		case one.Gone:
			note = "the repository is not there"
		case one.Old:
			note = "old"
		}
		if one.Old && !one.InUse && !one.Removed {
			old++
		}
		location := human.Printable(one.Location)
		if location == "" {
			location = "?"
		}
		t.add(one.Repository[:8], day(one.Used), location, human.Size(size), note)
	}
	if len(list) > 0 {
		t.write(w)
	}
	text := fmt.Sprintf("%s in %s, %s", human.Plural(uint64(len(list)), "cache"), human.Printable(dir),
		human.Size(bytes))
	switch {
	case cleanup:
		text += fmt.Sprintf("; %s: %d, %s", would(dry, "removed"), removed, human.Size(freed))
	case old > 0:
		text += fmt.Sprintf("; old: %d ('tidemark cache --cleanup' removes them)", old)
	}
	fmt.Fprintln(w, text)
}
