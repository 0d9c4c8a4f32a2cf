package device

import "github.com/tidemark-backup/tidemark/internal/localfs"

// view has little to see on macOS: whether a disk turns is in the I/O registry, which only IOKit reads, and that needs
// a C compiler. Remote file systems are known by their flags before anybody looks here.
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
func (v *view) elsewhere(o *object) storage { return v.behind(o) }

// behind names the disk by the device in the mount table. That of an APFS volume is its container, which all its
// volumes share; the disk below it is known to the I/O registry only.
func (v *view) behind(o *object) storage {
	s := storage{is: "a local " + o.fs.Type + ", of an unknown medium"}
	if disk := wholeDisk(o.label); disk != "" {
		s.is = disk + ", of an unknown medium"
		s.leaves, s.weak = []Leaf{{Name: disk}}, true
	}
	return s
}

// byNumber has nowhere to look: macOS lists its devices for IOKit only.
func (v *view) byNumber(uint64) (s storage, kind string, ok bool) { return s, "", false }
