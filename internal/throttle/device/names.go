package device

import "strings"

// protocol returns one name for the file systems that reach the same servers in the same way.
func protocol(kind string) string {
	switch kind {
	case "smb2", "smb3":
		return "cifs"
	case "nfs4":
		return "nfs"
	}
	return kind
}

// serverOf finds the machine in what a remote file system was mounted from: "//nas/share", "nas:/export",
// "user@nas:dir", "https://nas/dav", "mon1,mon2:/". Who serves is all that is kept: the user and the port are dropped.
// "" if it names nothing.
func serverOf(kind, source string) string {
	if kind == "virtiofs" {
		return "host" // the source is a label; at the other end is always the machine that runs this one
	}
	if _, rest, ok := strings.Cut(source, "://"); ok {
		source = "//" + rest
	}
	var host string
	if rest, ok := strings.CutPrefix(strings.ReplaceAll(source, `\`, "/"), "//"); ok {
		host, _, _ = strings.Cut(rest, "/")
		host = withoutPort(withoutUser(host))
	} else if before, _, ok := strings.Cut(source, ":/"); ok {
		host = before
	} else if before, _, ok := strings.Cut(source, "=/"); ok { // ceph since 5.17: user@cluster.name=/path
		host = before
	} else if end := strings.IndexByte(source, ']'); end >= 0 { // an address of IPv6 and a path that is not absolute
		host = source[:end+1]
	} else {
		host, _, _ = strings.Cut(source, ":")
	}
	if kind != "lustre" { // address@network
		host = withoutUser(host)
	}
	if kind == "afs" {
		host = strings.TrimLeft(host, "#%") // the kind of volume
	}
	if host == "none" {
		return ""
	}
	return strings.ToLower(host)
}

// withoutLogin cuts a user's name and password out of a URL or the name of a share: some put it there.
func withoutLogin(source string) string {
	head, rest, ok := strings.Cut(source, "//")
	if !ok {
		return source
	}
	host, path, deeper := strings.Cut(rest, "/")
	if host = withoutUser(host); deeper {
		path = "/" + path
	}
	return head + "//" + host + path
}

func withoutUser(host string) string { return host[strings.LastIndexByte(host, '@')+1:] }

func withoutPort(host string) string {
	at := strings.LastIndexByte(host, ':')
	if at < 0 || strings.Trim(host[at+1:], "0123456789") != "" {
		return host
	}
	return host[:at]
}

// wholeDisk returns the disk of a device of macOS: "disk3" of "/dev/disk3s1s1", which is the first snapshot of the
// first part of disk 3, and of "name@/dev/disk3s1", a snapshot that is mounted. "" if it is no disk's name.
func wholeDisk(device string) string {
	rest, ok := strings.CutPrefix(device[strings.LastIndexByte(device, '@')+1:], "/dev/disk")
	if !ok {
		return ""
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	if digits == 0 || digits < len(rest) && rest[digits] != 's' {
		return ""
	}
	return "disk" + rest[:digits]
}
