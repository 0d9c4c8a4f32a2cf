// Package nodev opens directories a second time, so that no device node can be opened in them: through a copy of their
// mount that is marked nodev and that nobody else sees. Whoever opens a file there cannot be made to open a device by
// somebody who swaps one in, and need not look first.
//
// The copy holds that one file system and none of those mounted on it, so a name may mean another object there than it
// does for everybody else. Who opens something compares it with what was wanted, and asks in the ordinary way where it
// differs.
//
// The package knows directories and mounts. It refuses to know what is opened in them, and what is done where the kernel
// has no such mounts, or keeps them from us: then Open fails.
package nodev

import "errors"

// ErrMissing: the directory cannot be opened a second time: this is not Linux 5.12 or newer, we may not make mounts, or
// the file system has no handles. The kernel's own word is wrapped beside it.
var ErrMissing = errors.New("no copy of the mount to be had")
