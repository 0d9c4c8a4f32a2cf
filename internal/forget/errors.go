package forget

import "errors"

// Errors of a user's request.
var (
	// ErrNoPolicy: neither a policy nor a snapshot is named.
	ErrNoPolicy = errors.New("nothing says which snapshots to keep: give at least one --keep option, such as " +
		"--keep-daily 7, or name the snapshots to drop by their IDs")
	// ErrNothingKept: a policy that keeps nothing.
	ErrNothingKept = errors.New("this policy keeps no snapshot at all: give at least one --keep option a number " +
		"above 0; to drop snapshots all the same, name them by their IDs")
	// ErrPeriod: not a span of time.
	ErrPeriod = errors.New("write a span of time as a number and a unit, from the longest to the shortest, such as " +
		"1y6m, 2w, 10d or 36h")
)

var (
	// ErrSome: some of the named snapshots were not found, or could not be removed.
	ErrSome = errors.New("some snapshots could not be dropped")
	// ErrUnread: some snapshots could not be read, so the policy does not apply to them.
	ErrUnread = errors.New("could not be read, and no policy drops what cannot be read: 'tidemark check' says what " +
		"is wrong, and 'tidemark forget' with an ID drops it all the same")
	// ErrPolicy: a policy in words is malformed.
	ErrPolicy = errors.New("invalid policy")
)
