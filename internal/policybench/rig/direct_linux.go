package rig

import "syscall"

// direct opens a file so that reads pass the page cache by.
const direct = syscall.O_DIRECT
