// Package damage judges errors of the repository during a restore, and remembers which frames cannot be opened.
//
// It refuses to know what was to be made of them.
package damage

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// ErrAway: the repository cannot be reached any more.
var ErrAway = errors.New("the repository cannot be reached: run the same command again when it can, it goes on where it stopped")

// Partial reports whether an error is about a part of the repository, so that other parts may still be readable.
func Partial(err error) bool {
	var pack *repo.PackError
	return !Whole(err) && (errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrNotExist) || errors.As(err, &pack))
}

// Whole reports whether an error is about the repository as a whole, which was waited for long enough already.
func Whole(err error) bool {
	return errors.Is(err, store.ErrTemporary) || errors.Is(err, store.ErrGone)
}

// Explain says what to do about an error that ends the run, if it is about the repository as a whole.
func Explain(err error) error {
	if Whole(err) {
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	return err
}

// Frames are the frames that could not be opened. Other windows may want something of them too, and what is damaged would be
// read in vain for each, from a disk perhaps that tries for long: of what they want, they only ask whether it is anywhere
// else. The zero value has none.
type Frames struct {
	mu  sync.Mutex
	bad map[frameKey]*badFrame
}

type badFrame struct {
	why   error
	again bool // it was tried once more
}

type frameKey struct {
	pack   format.ID
	offset uint32
}

// most bounds them: some GiB of damage, behind which the rest is read in vain.
const most = 1 << 12

// Add remembers why a frame could not be opened.
func (f *Frames) Add(pack format.ID, at repo.Span, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bad == nil {
		f.bad = map[frameKey]*badFrame{}
	}
	if key := (frameKey{pack, at.Offset}); f.bad[key] == nil && len(f.bad) < most {
		f.bad[key] = &badFrame{why: why}
	}
}

// Again reports whether a frame that could not be opened may be read once more: once each.
func (f *Frames) Again(pack format.ID, at repo.Span) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.bad[frameKey{pack, at.Offset}]
	if b == nil {
		return true
	}
	defer func() { b.again = true }()
	return !b.again
}

// Forget forgets a frame, which could be opened after all.
func (f *Frames) Forget(pack format.ID, at repo.Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.bad, frameKey{pack, at.Offset})
}

// Why returns why a frame could not be opened, nil if nothing is known.
func (f *Frames) Why(pack format.ID, at repo.Span) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.bad[frameKey{pack, at.Offset}]; b != nil {
		return b.why
	}
	return nil
}

// Before returns how many of the first spans of a pack are not known to be bad.
func (f *Frames) Before(pack format.ID, spans []repo.Span) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.bad) > 0 {
		for i, at := range spans {
			if f.bad[frameKey{pack, at.Offset}] != nil {
				return i
			}
		}
	}
	return len(spans)
}
