package copy

import (
	"context"
	"errors"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

var (
	// ErrOne: source and destination are the same repository.
	ErrOne = errors.New("source and destination are one repository, or one is a copy of the other's files, which " +
		"the local cache cannot distinguish; make the second one with 'tidemark init'")
	// ErrFailed: snapshots were left out, for reasons that were reported.
	ErrFailed = errors.New("not copied, see above; 'tidemark check' on the source shows what is damaged")

	errReference = errors.New("read the earlier copy")
	// errStop ends a walk whose consumer stopped early.
	errStop = errors.New("nothing more is read")
)

// sideError is damage of the source, which concerns one snapshot, so that the others are still copied, or any failure
// of the destination.
type sideError struct {
	error
	source bool
}

func (e *sideError) Unwrap() error { return e.error }

// toDestination marks an error of the destination.
func toDestination(err error) error {
	if err == nil {
		return nil
	}
	return &sideError{err, false}
}

// fromSource marks damage of the source. If the context has ended, it returns the cause: a failure of the destination
// or a cancellation by the user.
func fromSource(ctx context.Context, err error) error {
	var other *sideError
	if err == nil || ctx.Err() != nil || errors.As(err, &other) || errors.Is(err, errReference) {
		return err
	}
	if object.IsDamage(err) || errors.Is(err, store.ErrNotExist) || errors.Is(err, format.ErrUnsupported) {
		return &sideError{err, true}
	}
	return err
}
