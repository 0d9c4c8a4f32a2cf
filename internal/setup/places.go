package setup

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// folderName is the folder of a repository on a disk that also has other uses.
const folderName = "tidemark"

// mostPlaces is how many places are proposed at most.
const mostPlaces = 8

// Place is a mounted disk or share that can hold the repository.
type Place struct {
	Repository string // folder of the repository
	Name       string // device, label, medium and file system
	Free       uint64 // bytes
	Total      uint64
	SameDisk   string // the source on the same disk, "" for none
	Holds      bool   // there is a repository already
}

// Places returns the mounted disks and shares that this user can write to, the best ones first. A place on the disk of
// a source comes last.
func Places(sys System, sources []string) ([]Place, error) {
	mounts, err := sys.Mounts()
	if err != nil {
		return nil, err
	}
	devices := devicesOf(sys, sources)
	var all []Place
	seen := map[string]bool{}
	slices.SortStableFunc(mounts, func(a, b localfs.Mount) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	for _, m := range mounts {
		if m.ReadOnly || !proposable(m) || seen[m.Type+" "+m.Source] {
			continue
		}
		v, err := sys.Look(m.Path)
		if err != nil || v.Missing || !v.Folder || v.Device.Key == "" {
			continue // not reachable, a file, or not on a disk
		}
		seen[m.Type+" "+m.Source] = true
		p := Place{Name: nameOf(sys, m, v), Free: v.Free, Total: v.Total, SameDisk: sharing(v, sources, devices)}
		p.Repository, p.Holds = repositoryAt(sys, m.Path)
		if !p.Holds {
			p.Repository = filepath.Join(m.Path, folderName)
			inside, err := sys.Look(p.Repository)
			if err != nil || !inside.Writable {
				continue
			}
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.Free, a.Free))
	})
	return all[:min(len(all), mostPlaces)], nil
}

// rank orders places: those on disks without a source first, of these those that hold a repository.
func (p *Place) rank() (n int) {
	if p.SameDisk != "" {
		n = 2
	}
	if !p.Holds {
		n++
	}
	return n
}

// proposable reports whether a mount may be a disk or share for backups, by its name alone: what belongs to the system
// or may block is not examined.
func proposable(m localfs.Mount) bool {
	switch m.Type {
	case "autofs", "overlay", "squashfs", "iso9660", "udf", "tmpfs", "ramfs", "devtmpfs", "nsfs", "proc", "sysfs", "devfs":
		return false
	}
	if m.Path == "/" {
		return false
	}
	if within(m.Path, "/run/media") || within(m.Path, "/var/run/media") {
		return true
	}
	for _, system := range []string{"/boot", "/efi", "/usr", "/var", "/etc", "/nix", "/snap", "/proc", "/sys", "/dev",
		"/run", "/tmp",
		"/System", "/private", "/Library"} {
		if within(m.Path, system) {
			return false
		}
	}
	return true
}

// MountsOf returns the mount points that sources lie on, without that of the system, that of the home folder, and those
// that a person does not mount.
func MountsOf(sys System, sources []string, home string) (all []string) {
	mounts, err := sys.Mounts()
	if err != nil {
		return nil
	}
	for _, source := range sources {
		m := localfs.MountOf(source, mounts)
		if proposable(m) && m.Path != "" && (home == "" || m.Path != localfs.MountOf(home, mounts).Path) &&
			!slices.Contains(all, m.Path) {
			all = append(all, m.Path)
		}
	}
	return all
}

// within reports whether a path is a folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// devicesOf returns the devices of sources; the zero value for one that cannot be examined.
func devicesOf(sys System, sources []string) []device.Info {
	all := make([]device.Info, len(sources))
	for i, source := range sources {
		if v, err := sys.Look(source); err == nil {
			all[i] = v.Device
		}
	}
	return all
}

// sharing returns the source that shares a disk with v, "" for none. Two file systems in memory share it too.
func sharing(v Volume, sources []string, devices []device.Info) string {
	for i, d := range devices {
		if device.Overlaps(v.Device, d) || v.Device.Medium == device.Memory && d.Medium == device.Memory {
			return sources[i]
		}
	}
	return ""
}

// SameDisk returns the source that is on the disk of a folder, which may not exist yet; "" for none.
func SameDisk(sys System, folder string, sources []string) string {
	v, err := sys.Look(folder)
	if err != nil {
		return ""
	}
	return sharing(v, sources, devicesOf(sys, sources))
}

// nameOf describes a mount: sdb1 "Backup" (hdd, ext4), or //nas/backup (cifs).
func nameOf(sys System, m localfs.Mount, v Volume) string {
	if v.Device.Medium == device.Remote {
		source := v.Device.Source
		if source == "" {
			source = v.Device.Name()
		}
		return fmt.Sprintf("%s (share, %s)", human.Printable(source), m.Type)
	}
	name := filepath.Base(m.Source)
	if !strings.HasPrefix(m.Source, "/dev/") {
		name = v.Device.Name()
	}
	if label := sys.Label(m.Source); label != "" {
		name += fmt.Sprintf(" %q", label)
	}
	medium := ""
	if v.Device.Medium != device.Unknown {
		medium = v.Device.Medium.String() + ", "
	}
	return fmt.Sprintf("%s (%s%s)", human.Printable(name), medium, m.Type)
}

// repositoryAt returns the repository in a folder, or in its folder for backups.
func repositoryAt(sys System, folder string) (path string, found bool) {
	for _, at := range []string{folder, filepath.Join(folder, folderName)} {
		names, err := sys.Names(at)
		if err == nil && slices.Contains(names, "config") && slices.Contains(names, "keys") {
			return at, true
		}
	}
	return "", false
}

// Repository returns the folder of the repository for a folder that a person typed: the folder itself if it is new,
// empty or holds one, else a folder in it.
func Repository(sys System, folder string) string {
	if at, found := repositoryAt(sys, folder); found {
		return at
	}
	names, err := sys.Names(folder)
	if err != nil || len(names) == 0 {
		return folder
	}
	return filepath.Join(folder, folderName)
}

// Text describes a place in one line, but not what it protects against.
func (p Place) Text() string {
	text := p.Name
	if p.Total > 0 {
		text += fmt.Sprintf(", %s free of %s", human.Size(p.Free), human.Size(p.Total))
	}
	if p.Holds {
		text += ", holds a repository"
	}
	return text
}

// OnSameDisk warns of a repository on the disk of a source.
func OnSameDisk(source string) string {
	return "same disk as " + human.Printable(source) + ": no protection against a dead disk"
}
