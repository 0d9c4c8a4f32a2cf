package browse

import "errors"

// What a caller tells apart.
var (
	// ErrNotFound: the snapshot has no such path.
	ErrNotFound = errors.New("no such file or folder in the snapshot; 'tidemark ls' shows what it holds")
	// ErrNotDir: a path goes on beneath something that is no directory.
	ErrNotDir = errors.New("not a folder in the snapshot")
	// ErrPattern: a pattern cannot be read.
	ErrPattern = errors.New("pattern cannot be read; quote '[' and '\\' with a backslash to mean themselves")
	// ErrNoContent: the file's content could not be read when the snapshot was made, so there is nothing to write.
	ErrNoContent = errors.New("the snapshot holds only the metadata of this file; look for it in another snapshot")
	// ErrPartial: a folder could not be listed when the snapshot was made, so that something in it may be missing.
	ErrPartial = errors.New("the snapshot does not hold all of this folder; look for the rest in another snapshot")
	// ErrNotRepresentable: the format of the archive has no way to say it.
	ErrNotRepresentable = errors.New("this kind of archive cannot hold it")
	// ErrMode: there is no such way of counting.
	ErrMode = errors.New("choose one of restore-size, files-by-contents, raw-data or repository")
)
