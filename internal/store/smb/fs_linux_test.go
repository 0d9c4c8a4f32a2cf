package smb_test

import "golang.org/x/sys/unix"

// mountSmall mounts a file system of the given size in bytes.
func mountSmall(path, size string) error {
	return unix.Mount("tidemark-test", path, "tmpfs", 0, "mode=700,size="+size)
}

func remount(path string, readOnly bool, options string) error {
	flags := uintptr(unix.MS_REMOUNT)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	return unix.Mount("", path, "", flags, options)
}

func unmount(path string) error { return unix.Unmount(path, 0) }
