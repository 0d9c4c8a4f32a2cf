package object

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Early is a set of listings that begin together, before what needs them asks. Each shows a moment after the beginning.
// The files of a kind are kept. Packs, which may be many, are listed as fast as one reader takes them.
type Early struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	kinds  map[store.Kind]*early
	packs  *earlyPacks
}

// early is the listing of one kind.
type early struct {
	done  chan struct{}
	infos []store.Info // set once done is closed
	err   error        // likewise
}

// earlyPacks is the listing of the packs.
type earlyPacks struct {
	taken   atomic.Bool
	first   chan struct{} // closed when one is listed, or none is there
	once    sync.Once     // closes first
	any     bool          // set once first is closed
	batch   []store.Info
	batches chan []store.Info
	err     error // set once batches is closed
}

const (
	packsAtOnce = 1000 // in a batch
	packsAhead  = 2    // batches that wait for the reader
)

// ListEarly begins to list kinds, with one request where the store can. Stop it.
func ListEarly(ctx context.Context, st store.Store, kinds ...store.Kind) *Early {
	ctx, cancel := context.WithCancel(ctx)
	e := &Early{cancel: cancel, kinds: make(map[store.Kind]*early)}
	for _, kind := range kinds {
		if kind == store.Pack {
			e.packs = &earlyPacks{first: make(chan struct{}), batches: make(chan []store.Info, packsAhead)}
		} else {
			e.kinds[kind] = &early{done: make(chan struct{})}
		}
	}
	alone := kinds
	if together := store.Together(st); together != nil {
		// The snapshots have a listing of their own: the other one may go on for many packs.
		alone = []store.Kind{store.Snapshot}
		rest := slices.DeleteFunc(slices.Clone(kinds), func(k store.Kind) bool { return k == store.Snapshot })
		e.ended.Go(func() { e.list(ctx, together(ctx, rest...), rest...) })
	}
	for _, kind := range alone {
		e.ended.Go(func() { e.list(ctx, st.List(ctx, kind), kind) })
	}
	return e
}

// list reads the files of kinds, one kind after the other.
func (e *Early) list(ctx context.Context, from iter.Seq2[store.Info, error], kinds ...store.Kind) {
	end := func(until store.Kind, err error) {
		for len(kinds) > 0 && kinds[0] != until {
			e.end(ctx, kinds[0], err)
			kinds = kinds[1:]
		}
	}
	for info, err := range from {
		if err != nil {
			end(0, err)
			return
		}
		if !slices.Contains(kinds, info.Name.Kind) { // what is short of some files must not pass for a list
			end(0, fmt.Errorf("list %v: the target lists %s after the other folders, in no order", kinds, info.Name))
			return
		}
		end(info.Name.Kind, nil)
		if !e.add(ctx, info) {
			break
		}
	}
	end(0, context.Cause(ctx))
}

// add reports whether more is wanted.
func (e *Early) add(ctx context.Context, info store.Info) bool {
	if one := e.kinds[info.Name.Kind]; one != nil {
		one.infos = append(one.infos, info)
		return true
	}
	p := e.packs
	p.batch = append(p.batch, info)
	p.once.Do(func() {
		p.any = true
		close(p.first)
	})
	return len(p.batch) < packsAtOnce || p.pass(ctx)
}

// pass passes a batch on to the reader.
func (p *earlyPacks) pass(ctx context.Context) bool {
	batch := p.batch
	p.batch = nil
	select {
	case p.batches <- batch:
		return true
	case <-ctx.Done():
		return false
	}
}

func (e *Early) end(ctx context.Context, kind store.Kind, err error) {
	if one := e.kinds[kind]; one != nil {
		one.err = err
		close(one.done)
		return
	}
	p := e.packs
	if len(p.batch) > 0 && !p.pass(ctx) {
		err = context.Cause(ctx)
	}
	p.err = err
	p.once.Do(func() { close(p.first) })
	close(p.batches)
}

// Stop ends the listings; e may be nil.
func (e *Early) Stop() {
	if e != nil {
		e.cancel()
		e.ended.Wait()
	}
}

// ticket lets one user take a listing once: when it lists again, it needs the files as they are then.
type ticket struct {
	from  *Early
	kind  store.Kind
	taken atomic.Bool
}

// ticketKey is the key of a *ticket in a context.
type ticketKey struct{}

// In returns a context in which the first listing of a kind is that of e, which may be nil.
func (e *Early) In(ctx context.Context, kind store.Kind) context.Context {
	if e == nil {
		return ctx
	}
	return context.WithValue(ctx, ticketKey{}, &ticket{from: e, kind: kind})
}

// takes reports whether a listing of a kind is to be that of Early.
func (t *ticket) takes(kind store.Kind) bool {
	switch {
	case t == nil || t.kind != kind || t.taken.Swap(true):
		return false
	case kind == store.Pack:
		return t.from.packs != nil && !t.from.packs.taken.Swap(true)
	}
	return t.from.kinds[kind] != nil
}

// Files lists the files of a kind as a store does, or takes them from an Early in ctx.
func Files(ctx context.Context, st store.Store, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		from := st.List(ctx, kind)
		if t, _ := ctx.Value(ticketKey{}).(*ticket); t.takes(kind) {
			from = t.from.each(kind)
		}
		from(yield)
	}
}

// each yields what was listed, and waits for it.
func (e *Early) each(kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if kind == store.Pack {
			for batch := range e.packs.batches {
				for _, info := range batch {
					if !yield(info, nil) {
						return
					}
				}
			}
			if e.packs.err != nil {
				yield(store.Info{}, e.packs.err)
			}
			return
		}
		one := e.kinds[kind]
		<-one.done
		for _, info := range one.infos {
			if !yield(info, nil) {
				return
			}
		}
		if one.err != nil {
			yield(store.Info{}, one.err)
		}
	}
}

// NoPacks reports whether the repository has no pack, or had none when an Early in ctx began.
func NoPacks(ctx context.Context, st store.Store) (bool, error) {
	if t, _ := ctx.Value(ticketKey{}).(*ticket); t != nil && t.from.packs != nil {
		p := t.from.packs
		if <-p.first; p.any {
			return false, nil
		}
		for range p.batches { // there is none; it is closed with the error
		}
		return p.err == nil, p.err
	}
	for _, err := range st.List(ctx, store.Pack) {
		if err != nil {
			return false, fmt.Errorf("list packs: %w", err)
		}
		return false, nil
	}
	return true, nil
}
