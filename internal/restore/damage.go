package restore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/treecache"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// isUnreachable reports whether an error concerns the repository as a whole. The store has retried long enough by then.
func isUnreachable(err error) bool {
	return errors.Is(err, store.ErrTemporary) || errors.Is(err, store.ErrGone)
}

// explainUnreachable adds ErrUnreachable to an error that concerns the repository as a whole.
func explainUnreachable(err error) error {
	if isUnreachable(err) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// damagedFrames remembers the frames that could not be opened. Later batches do not read them again, since a failing
// disk may retry for a long time; they only look for other copies of the chunks. The zero value is empty.
type damagedFrames struct {
	mu     sync.Mutex
	frames map[treecache.Key]*damagedFrame
	packs  map[format.ID]bool // packs with unreadable trees or chunk lists
}

type damagedFrame struct {
	cause   error
	retried bool
}

// maxDamagedFrames bounds the memory: it stands for some GiB of damage. Frames beyond it are read again each time.
const maxDamagedFrames = 1 << 12

// add records why a frame could not be opened.
func (f *damagedFrames) add(pack format.ID, at repo.Span, cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frames == nil {
		f.frames = map[treecache.Key]*damagedFrame{}
	}
	if key := (treecache.Key{Pack: pack, Offset: at.Offset}); f.frames[key] == nil && len(f.frames) < maxDamagedFrames {
		f.frames[key] = &damagedFrame{cause: cause}
	}
}

// retryOnce reports whether a frame may be read again: a damaged one once.
func (f *damagedFrames) retryOnce(pack format.ID, at repo.Span) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.frames[treecache.Key{Pack: pack, Offset: at.Offset}]
	if b == nil {
		return true
	}
	defer func() { b.retried = true }()
	return !b.retried
}

// forget removes a frame that could be opened after all.
func (f *damagedFrames) forget(pack format.ID, at repo.Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.frames, treecache.Key{Pack: pack, Offset: at.Offset})
}

// cause returns why a frame could not be opened, or nil.
func (f *damagedFrames) cause(pack format.ID, at repo.Span) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := f.frames[treecache.Key{Pack: pack, Offset: at.Offset}]; b != nil {
		return b.cause
	}
	return nil
}

// intact returns how many of the spans precede the first one that is known to be damaged.
func (f *damagedFrames) intact(pack format.ID, spans []repo.Span) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.frames) > 0 {
		for i, at := range spans {
			if f.frames[treecache.Key{Pack: pack, Offset: at.Offset}] != nil {
				return i
			}
		}
	}
	return len(spans)
}

// addPack records the damaged pack, if the error names one.
func (f *damagedFrames) addPack(err error) {
	var in *repo.PackError
	if !errors.As(err, &in) || isUnreachable(err) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.packs == nil {
		f.packs = map[format.ID]bool{}
	}
	f.packs[in.Pack] = true
}

// allPacks returns the packs that are damaged somewhere.
func (f *damagedFrames) allPacks() []format.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	packs := slices.Collect(maps.Keys(f.packs))
	for key := range f.frames {
		packs = append(packs, key.Pack)
	}
	slices.SortFunc(packs, format.ID.Compare)
	return slices.Compact(packs)
}
