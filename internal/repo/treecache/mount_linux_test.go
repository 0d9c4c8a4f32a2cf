package treecache

import "golang.org/x/sys/unix"

func mountSmall(dir, size string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) }
