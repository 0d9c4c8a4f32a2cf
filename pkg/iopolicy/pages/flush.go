package pages

import (
	"errors"
	"syscall"
)

// Promise is what the flush of a file or folder promises.
type Promise uint8

// The promises, weakest last.
const (
	Durable   Promise = iota // it survives a power failure, if the device obeys
	Submitted                // the device or the server has it, perhaps in a cache
	Nothing                  // the file system cannot flush a folder
)

// flush makes a file or folder durable by the strongest call that its file system has. full is fcntl(F_FULLFSYNC) of
// macOS, which exFAT and FAT (ENOTTY), macFUSE (EINVAL) and SMB (ENOTSUP) lack; plain is fsync, which some lack for
// folders. Any other error is returned.
func flush(full, plain func() error, folder bool) (Promise, error) {
	err := uninterrupted(full)
	if !lacking(err) {
		return Durable, err
	}
	err = uninterrupted(plain)
	if folder && lacking(err) {
		return Nothing, nil
	}
	return Submitted, err
}

// lacking reports whether a file system does not have a call, as opposed to a call that failed.
func lacking(err error) bool {
	for _, errno := range []error{syscall.ENOTTY, syscall.EINVAL, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

func uninterrupted(call func() error) error {
	err := call()
	for errors.Is(err, syscall.EINTR) {
		err = call()
	}
	return err
}
