package restore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// damaged reports whether an error is about a part of the repository, so that other parts may still be readable.
func damaged(err error) bool {
	var pack *repo.PackError
	return !unreachable(err) && (errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrNotExist) || errors.As(err, &pack))
}

// unreachable reports whether an error is about the repository as a whole, which was waited for long enough already.
func unreachable(err error) bool {
	return errors.Is(err, store.ErrTemporary) || errors.Is(err, store.ErrGone)
}

// away says what to do about an error that ends the run, if it is one of those.
func away(err error) error {
	if unreachable(err) {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// badFrames are the frames that could not be opened. Other windows may want something of them too, and what is damaged would be
// read in vain for each, from a disk perhaps that tries for long: of what they want, they only ask whether it is anywhere else.
type badFrames struct {
	mu     sync.Mutex
	frames map[frameKey]error
}

type frameKey struct {
	pack   format.ID
	offset uint32
}

// maxBad bounds them: some GiB of damage, behind which the rest is read in vain.
const maxBad = 1 << 12

func (b *badFrames) add(pack format.ID, at repo.Span, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.frames == nil {
		b.frames = map[frameKey]error{}
	}
	if key := (frameKey{pack, at.Offset}); b.frames[key] == nil && len(b.frames) < maxBad {
		b.frames[key] = why
	}
}

// why returns why a frame could not be opened, nil if nothing is known.
func (b *badFrames) why(pack format.ID, at repo.Span) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.frames[frameKey{pack, at.Offset}]
}

// before returns how many of the first spans of a pack are not known to be bad.
func (b *badFrames) before(pack format.ID, spans []repo.Span) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.frames) > 0 {
		for i, at := range spans {
			if b.frames[frameKey{pack, at.Offset}] != nil {
				return i
			}
		}
	}
	return len(spans)
}
