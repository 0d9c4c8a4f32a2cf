//go:build !linux

package main

// direct opens a file so that reads pass the page cache by.
const direct = 0
