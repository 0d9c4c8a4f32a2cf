//go:build !linux

package mount

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func readOnly(opt *fuse.MountOptions) { opt.Options = append(opt.Options, "ro") }

// settled waits for the helper of macFUSE, which mounts in the background.
func settled(server *fuse.Server) error { return server.WaitMount() }

// detach removes a mount that is in use.
func detach(dir string) error { return unix.Unmount(dir, unix.MNT_FORCE) }

// refused returns the error as it is: what macFUSE needs has not been tried.
func refused(err error) error { return err }
