package browse

import "errors"

// Errors that callers distinguish.
var (
	// ErrNotFound: the snapshot has no such path.
	ErrNotFound = errors.New("no such file or folder in the snapshot; 'tidemark ls' shows what it holds")
	// ErrNotDir: a path continues beneath an object that is not a directory.
	ErrNotDir = errors.New("not a folder in the snapshot")
	// ErrPattern: a pattern is malformed.
	ErrPattern = errors.New("pattern cannot be read; quote '[' and '\\' with a backslash to mean themselves")
	// ErrNoContent: the file was unreadable when the snapshot was made, so it has no content.
	ErrNoContent = errors.New("the snapshot holds only the metadata of this file; look for it in another snapshot")
	// ErrPartial: a folder could not be listed when the snapshot was made, so entries may be missing.
	ErrPartial = errors.New("the snapshot does not hold all of this folder; look for the rest in another snapshot")
	// ErrNotRepresentable: the archive format cannot represent the object.
	ErrNotRepresentable = errors.New("this kind of archive cannot hold it")
	// ErrMode: the counting mode is unknown.
	ErrMode = errors.New("choose one of restore-size, files-by-contents, raw-data, unique or repository")

	// errUnread: a live directory could not be read, so that nothing is known about its content.
	errUnread = errors.New("the folder cannot be read")
)
