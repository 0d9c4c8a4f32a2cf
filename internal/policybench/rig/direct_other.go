//go:build !linux

package rig

// direct opens a file so that reads pass the page cache by.
const direct = 0
