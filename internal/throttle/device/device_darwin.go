package device

import (
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// view finds the disks of file systems. Remote file systems are known by their flags before anything looks here.
type view struct {
	mu    sync.Mutex
	known map[string]storage // by what a file system was mounted from
}

func hostView() *view { return &view{known: make(map[string]storage)} }

// identify returns what the file system was mounted from; "" if that is not known.
func identify(d *localfs.Dir, _ string) string {
	from, err := d.MountedFrom()
	if err != nil {
		return ""
	}
	return from
}

// source returns what the file system of an object was mounted from.
func (v *view) source(o *object) string { return o.label }

// elsewhere does not happen: macOS mounts directories only.
func (v *view) elsewhere(o *object) storage { return v.behind(o) }

// behind asks diskutil, once for each file system.
func (v *view) behind(o *object) storage {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.known[o.label]
	if !ok {
		stores, err := diskwatch.Stores(o.label)
		s = onMac(o.fs.Type, o.label, stores, err)
		v.known[o.label] = s
	}
	return s
}

// byNumber has nowhere to look: macOS lists its devices for IOKit only.
func (v *view) byNumber(uint64) (s storage, kind string, ok bool) { return s, "", false }
