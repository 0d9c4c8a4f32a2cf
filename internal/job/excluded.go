package job

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Mac is what the exclusions of Time Machine are read from.
type Mac struct {
	Run    func(program string, args ...string) ([]byte, error) // returns what a program prints
	Homes  []string                                             // home folders
	Mounts []string                                             // mount points
}

// standardFile had the exclusions of Apple until macOS 10.15.
const standardFile = "/System/Library/CoreServices/backupd.bundle/Contents/Resources/StdExclusions.plist"

// TimeMachineExclusions returns the paths that Time Machine leaves out, now: those of its settings, the volumes in
// them, and Apple's own. A path that ends in "/*" is a folder whose contents are left out. With an error, which says
// what is not known, the rest is returned.
func (m *Mac) TimeMachineExclusions() (paths []string, err error) {
	paths = m.standard()
	content, err := m.Run("/usr/bin/defaults", "export", "/Library/Preferences/com.apple.TimeMachine", "-")
	var root *plist
	if err == nil {
		root, err = parsePlist(content)
	}
	if err != nil {
		return m.expanded(paths), fmt.Errorf("read what is excluded from Time Machine: %w", err)
	}
	for _, key := range []string{"SkipPaths", "ExcludeByPath"} {
		paths = append(paths, root.get(key).texts()...)
	}
	if volumes := root.get("ExcludedVolumeUUIDs").texts(); len(volumes) > 0 {
		var found []string
		found, err = m.volumes(volumes)
		paths = append(paths, found...)
	}
	return m.expanded(paths), err
}

// texts returns the strings of an array.
func (p *plist) texts() (all []string) {
	for _, one := range p.items {
		all = append(all, one.text)
	}
	return all
}

// standard returns Apple's exclusions: what indexes, caches and the system make again. From macOS 11 on they are in
// the program of backupd; the list is then that of 10.15, as far as it concerns what a backup would read. Logs, whose
// files Apple excludes, are kept, and so are other disks below /Volumes, which have rules of their own.
func (m *Mac) standard() (paths []string) {
	content, err := m.Run("/usr/bin/plutil", "-convert", "xml1", "-o", "-", standardFile)
	if err == nil {
		if root, err := parsePlist(content); err == nil {
			paths = root.get("PathsExcluded").texts()
			for _, one := range root.get("ContentsExcluded").texts() {
				if one != "/Volumes" {
					paths = append(paths, one+"/*")
				}
			}
			for _, one := range root.get("UserPathsExcluded").texts() {
				paths = append(paths, "~/"+one)
			}
			return paths
		}
	}
	return []string{
		"/.Spotlight-V100", "/.Trashes", "/.fseventsd", "/.MobileBackups", "/Previous Systems", "/Users/Guest",
		"/private/var/db/Spotlight", "/private/var/db/Spotlight-V100", "/private/var/db/fseventsd/*",
		"/private/var/db/dhcpclient/*", "/private/var/folders/*", "/private/var/run/*", "/private/var/tmp/*",
		"/private/var/vm/*", "/private/tmp/*", "/cores/*", "/Library/Caches/*", "/System/Library/Caches/*",
		"~/.Trash", "~/Library/Caches", "~/Library/Logs", "~/Library/Mirrors",
	}
}

// expanded replaces "~" by each home folder, and "~ann" by that of ann. It leaves out what is no path.
func (m *Mac) expanded(paths []string) (all []string) {
	for _, one := range paths {
		name, rest, _ := strings.Cut(one, "/")
		switch {
		case strings.HasPrefix(one, "/"):
			all = append(all, path.Clean(one))
		case name == "~":
			for _, home := range m.Homes {
				all = append(all, path.Join(home, rest))
			}
		case strings.HasPrefix(name, "~"):
			for _, home := range m.Homes {
				if path.Base(home) == name[1:] {
					all = append(all, path.Join(home, rest))
				}
			}
		}
	}
	slices.Sort(all)
	whole := func(one string) bool { return one == "/" || slices.Contains(m.Homes, one) }
	return slices.DeleteFunc(slices.Compact(all), whole)
}

// volumes returns where the volumes of these UUIDs are mounted.
func (m *Mac) volumes(uuids []string) (at []string, err error) {
	for _, mount := range m.Mounts {
		if !strings.HasPrefix(mount, "/Volumes/") {
			continue
		}
		content, err := m.Run("/usr/sbin/diskutil", "info", "-plist", mount)
		var root *plist
		if err == nil {
			root, err = parsePlist(content)
		}
		if err != nil {
			return at, fmt.Errorf("ask whether %s is excluded from Time Machine: %w", mount, err)
		}
		if slices.ContainsFunc(uuids, func(uuid string) bool {
			return strings.EqualFold(uuid, root.get("VolumeUUID").text)
		}) {
			at = append(at, mount)
		}
	}
	return at, nil
}
