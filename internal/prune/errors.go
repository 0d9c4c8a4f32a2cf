package prune

import "errors"

var (
	// ErrDamaged: something that snapshots need is missing, so the unneeded packs are not known.
	ErrDamaged = errors.New("nothing was removed, because something that snapshots need is missing or cannot be " +
		"read; run 'tidemark check --read-data' to see and mark it, then back up again; 'tidemark forget', by their ID, " +
		"only snapshots that a check still calls damaged after that")
	// ErrMissing: snapshots have disappeared that no forget has removed.
	ErrMissing = errors.New("nothing was removed, because the files of snapshots that this machine saved were deleted " +
		"by something else than 'tidemark forget', and their data would go; 'tidemark forget --undo' with their IDs " +
		"brings them back, 'tidemark forget' with their IDs accepts the loss")
	// ErrBusy: another prune is running.
	ErrBusy = errors.New("another prune is at work in this repository, or was cut off and still counts as at work, " +
		"for 45 minutes at most; try again later")
	// ErrLively: leases change faster than they are read.
	ErrLively = errors.New("the leases of other writers change faster than they can be read; try again later")
	// ErrLagging: listings may be of any age.
	ErrLagging = errors.New("this kind of mounted file system may show folders as they were minutes ago, so prune " +
		"cannot see who else uses the repository; prune where the repository is a local folder, or, while nothing else " +
		"uses it and nothing has in the last hour, with '--exclusive'")
	// ErrUnfit: the target gives one name to several programs.
	ErrUnfit = errors.New("the target lets two programs create the same file, so prune could remove data of a backup " +
		"that stands still for a while; prune where the repository is a local folder, or, while nothing else uses it and " +
		"nothing has in the last hour, with '--exclusive'")
	// ErrUnread: some packs that were to be repacked could not be read.
	ErrUnread = errors.New("could not be read in whole and stayed; run 'tidemark check --read-data'")
)
