package device

import (
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/diskwatch"
)

// view finds the disks of file systems. Remote file systems are known by their flags before anything looks here.
type view struct{}

func hostView() *view { return &view{} }

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
func (v *view) elsewhere(o *object) Info { return v.behind(o) }

// behind asks diskutil.
func (v *view) behind(o *object) Info {
	stores, err := diskwatch.Stores(o.label)
	return onMac(o.fs.Type, o.label, stores, err)
}

// byNumber has nowhere to look: macOS lists its devices for IOKit only.
func (v *view) byNumber(uint64) (s Info, kind string, ok bool) { return s, "", false }
