package localfs

import "golang.org/x/sys/unix"

// fewDescriptors is what every system grants.
const fewDescriptors = 256

// Descriptors returns how many files, directories and sockets this process may have open at the same time.
func Descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return fewDescriptors
	}
	return int(min(limit.Cur, 1<<20))
}
