package restore

import "errors"

// ErrNoPath reports that the snapshot does not hold the requested path.
var ErrNoPath = errors.New("no such path in the snapshot ('tidemark ls' shows what is there)")

// ErrFull reports that the target has no space left.
var ErrFull = errors.New("the target is full: free space on it and run the same command again, " +
	"it continues where it stopped")

// ErrUnreachable reports that the repository cannot be reached any more.
var ErrUnreachable = errors.New("the repository cannot be reached: run the same command again when it can, " +
	"it continues where it stopped")

// The restore leaves an object as it is.
var (
	errClash = errors.New("the file system does not distinguish these names: restore one of them to another place")
	// errAppeared: the object did not exist when its directory was first read.
	errAppeared = errors.New("an object with that name has appeared there since the restore began: " +
		"another program writes there, or the file system does not distinguish such names; it is left as it is")
	errChanged = errors.New("it changed during the restore, and is left as it is: run the same command again")
	// errUnasked: a restore without consent replaces nothing that differs.
	errUnasked  = errors.New("it differs from the snapshot, and is left as it is: --overwrite always replaces it")
	errInTheWay = errors.New("something that is not a directory is there, and the overwrite rule leaves it as it is: " +
		"nothing below this directory is restored")
	errNotEmpty = errors.New("a directory that is not empty is in the way: remove it, or use --delete")
	errNotOwner = errors.New("it belongs to another user there, and only root can change owners")
	errGuarded  = errors.New("it lies in a repository of backups, where no restore replaces anything: " +
		"restore it into a directory that does not exist yet")
	errOurName = errors.New("a restore gives such names to unfinished files, so a file could replace this one: " +
		"restore it into a directory that does not exist yet, or use dump")
)

// errTarget follows the path of a repository.
var errTarget = errors.New("is a repository of backups, and a restore could destroy it: name another target")

// --delete removes nothing.
var (
	errMounted    = errors.New("another file system is mounted there: it is left alone")
	errRepository = errors.New("it is a repository of backups, which no restore removes: remove it by hand if it is to go")
	errKeyFile    = errors.New("it contains a key file of a repository, perhaps its only key: remove it by hand if " +
		"it is to go")
	errSpelling   = errors.New("the file system lists it under another spelling: nothing is deleted in this directory")
	errOnTheWay   = errors.New("this directory is only on the way to what was backed up: nothing else in it is deleted")
	errNotEntered = errors.New("the file system that is mounted here is not in the snapshot: nothing in it is deleted")
)

// A further name of an object cannot be made. Another program replaced an object during the restore.
var (
	errNoFirstName = errors.New("the file it is another name of could not be restored")
	errOther       = errors.New("another object has taken the place of the file that it is a name of")
	errSwapped     = errors.New("another directory has taken its place")
)

// The snapshot or the repository lacks something.
var (
	errPartial = errors.New("this directory could not be listed completely when it was backed up: entries may " +
		"be missing")
	errNoContent = errors.New("its content could not be read when it was backed up: there is nothing to restore")
	errWrongBlob = errors.New("the repository delivered other bytes than were backed up; nothing was written")
	errLost      = errors.New("a part of its content is not in the repository any more")
)
