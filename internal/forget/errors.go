package forget

import "errors"

var (
	// ErrPeriod: not a span of time.
	ErrPeriod = errors.New("write a span of time as a number and a unit, from the longest to the shortest, such as " +
		"1y6m, 2w, 10d or 36h")
	// ErrSome: some of the named snapshots were not found, or could not be removed.
	ErrSome = errors.New("some snapshots could not be dropped")
	// ErrUnread: some snapshots could not be read, so the policy does not apply to them.
	ErrUnread = errors.New("could not be read, and no policy drops what cannot be read: 'tidemark check' says what " +
		"is wrong, and 'tidemark forget' with an ID drops it all the same")
	// ErrPolicy: a policy in words is malformed.
	ErrPolicy = errors.New("invalid policy")
)
