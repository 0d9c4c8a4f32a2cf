package sourcesnap

import "errors"

var (
	// ErrPlace: a snapshot is not where it should be.
	ErrPlace = errors.New("the place of the snapshot is not usable")
	// ErrSystem: this system has no such snapshots.
	ErrSystem = errors.New("not on this system")
	// ErrFileSystem: the file system of the source has no such snapshots.
	ErrFileSystem = errors.New("the file system has no such snapshots")
)
