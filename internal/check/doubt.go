package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// Damage that a single read shows may be that of the line to the repository, which changes bits where nothing is signed
// or encrypted. A pack therefore counts as damaged only after another look at it, over another connection.

// altered is the note for a pack that was intact at the second look only.
const altered = "pack %s was read intact over another connection only: something between this machine and the " +
	"repository changes data (a cable, a switch, memory, an attacker)"

// mistaken looks again at all packs that seem missing or damaged, and reports whether some are intact. The check then
// begins again, since it did not look at what lies below their directories. A pack that seems damaged in another pass
// is so: its bytes are intact and contradict the index.
func (c *checker) mistaken(ctx context.Context, last bool) (bool, error) {
	var mu sync.Mutex // guards c.whole and found
	found := 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.opt.Parallel)
	again := slices.DeleteFunc(c.found.Suspects(), func(id format.ID) bool { return c.whole[id] })
	for _, id := range again {
		c.start(ctx, g, func(ctx context.Context) error {
			whole, err := object.IsWhole(ctx, c.st, object.Named(store.Pack, id))
			if whole {
				mu.Lock()
				defer mu.Unlock()
				c.whole[id] = true
				found++
			}
			if errors.Is(err, store.ErrDenied) {
				return nil // it stays a problem, and others are looked for
			}
			return err
		})
	}
	if err := c.wait(g); err != nil || found == 0 {
		return false, err
	}
	if last {
		return false, fmt.Errorf("%w: %d packs seemed damaged, and are intact", ErrUnsteady, found)
	}
	return true, nil
}

// noteMistaken adds a note for each pack that seemed damaged in an earlier pass.
func (c *checker) noteMistaken() {
	damaged := make(map[format.ID]bool)
	for _, id := range c.found.Suspects() {
		damaged[id] = true
	}
	for id := range c.whole {
		if !damaged[id] {
			c.found.Note(altered, id)
		}
	}
}

// retract removes the marks of packs that were read back intact. A failure is only a note, because the target may be
// read-only.
func (c *checker) retract(ctx context.Context) error {
	c.noteMistaken()
	intact := c.found.Intact()
	if len(intact) == 0 {
		return nil
	}
	n, err := 0, error(nil)
	if c.opt.Record != "" && !c.opt.Lagging {
		n, err = c.r.RetractDamage(ctx, c.opt.Record, intact)
	}
	switch {
	case err != nil && fatal(ctx, err):
		return err
	case n > 0:
		c.found.Note("packs that were marked as damaged, and were read back intact now: %d; they are no longer marked", n)
	default:
		why := ""
		if err != nil {
			why = fmt.Sprintf(", since it cannot be removed (%v)", err)
		}
		c.found.Note("packs that are marked as damaged, and were read back intact now: %d; the mark stays%s, so that "+
			"backups store again what they need of them", len(intact), why)
	}
	return nil
}
