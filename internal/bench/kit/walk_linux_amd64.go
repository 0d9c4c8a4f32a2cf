package kit

import "golang.org/x/sys/unix"

// fstatat is the number of the call.
const fstatat = unix.SYS_NEWFSTATAT
