package enginetest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/prune"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/testkit"
)

// narrow is a store that has only so much room.
type narrow struct {
	store.Store
	mu   sync.Mutex
	room int64 // left
}

func (n *narrow) Put(ctx context.Context, name store.Name, data []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	need := int64(len(data))
	if info, err := n.Stat(ctx, name); err == nil {
		need -= info.Size
	}
	if need > n.room {
		return store.ErrNoSpace
	}
	n.room -= need
	return n.Store.Put(ctx, name, data)
}

func (n *narrow) Delete(ctx context.Context, name store.Name) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if info, err := n.Stat(ctx, name); err == nil {
		n.room += info.Size
	}
	return n.Store.Delete(ctx, name)
}

// TestPruneOnAFullDisk: where there is no room to write packs anew, what nothing needs goes first, and then there may be.
func TestPruneOnAFullDisk(t *testing.T) {
	const trash = 900_000
	build := func(t *testing.T, trashed int) *pruned {
		p := newPruned(t, mem.New())
		first := p.snapshot(1)
		require.NoError(t, os.WriteFile(filepath.Join(p.src, "trash"), testkit.Noise(77, trashed), 0o644))
		second := p.snapshot(2)
		require.NoError(t, os.Remove(filepath.Join(p.src, "trash")))
		p.snapshot(3)
		p.forget(first, second)
		return p
	}
	opt := smallPrune()
	opt.MaxUnused = prune.Limit{Bytes: 0}
	var said []string
	opt.Note = func(text string) { said = append(said, text) }
	least, err := build(t, trash).prune(opt) // with all the room that there may be
	require.NoError(t, err)
	require.NotZero(t, least.Repacked.Packs)
	require.NotContains(t, strings.Join(said, "\n"), "no room")

	for _, room := range []int64{12_000, 30_000, 100_000} {
		p := build(t, trash)
		before := bytesOf(t, p.st, store.Pack)
		inner := p.st
		p.st = &narrow{Store: inner, room: room}
		said = nil
		res, err := p.prune(opt)
		p.st = inner
		require.NoError(t, err, "room for %d bytes", room)
		require.Contains(t, strings.Join(said, "\n"), "no room")
		require.NotZero(t, res.Repacked.Packs)
		require.Equal(t, uint64(before), res.Before.Bytes)
		require.Zero(t, res.Unused)
		require.Equal(t, before-bytesOf(t, inner, store.Pack) > trash, true)
		require.Zero(t, count(t, inner, store.Mark))
		p.requireWhole("after a prune of a full disk")
	}

	// Nothing can go without something being written, for which there is no room.
	p := build(t, 0)
	_, err = p.prune(prune.Options{MaxUnused: prune.Limit{None: true}})
	require.NoError(t, err)
	before := bytesOf(t, p.st, store.Pack)
	inner := p.st
	p.st = &narrow{Store: inner, room: 12_000}
	_, err = p.prune(opt)
	p.st = inner
	require.ErrorIs(t, err, store.ErrNoSpace)
	require.ErrorContains(t, err, "make room")
	require.LessOrEqual(t, bytesOf(t, inner, store.Pack), before, "what was written in vain is taken away")
	p.requireRestorable("after a prune without room", true)
	_, err = p.prune(opt)
	require.NoError(t, err)
	p.requireWhole("with room")
}

// leaseOnly is a store that has room for a lease and for nothing else.
type leaseOnly struct{ store.Store }

func (l leaseOnly) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind != store.Lease {
		return store.ErrNoSpace
	}
	return l.Store.Put(ctx, name, data)
}

// TestPruneOnADiskWithoutAnyRoom: not even an index segment can be written.
func TestPruneOnADiskWithoutAnyRoom(t *testing.T) {
	p := newPruned(t, mem.New())
	p.forget(p.snapshot(1))
	p.snapshot(2)
	inner := p.st
	for _, limit := range []prune.Limit{{None: true}, {Bytes: 0}} {
		p.st = leaseOnly{inner}
		opt := smallPrune()
		opt.MaxUnused = limit
		_, err := p.prune(opt)
		p.st = inner
		require.ErrorIs(t, err, store.ErrNoSpace)
		require.ErrorContains(t, err, "enlarge it")
		p.requireRestorable("nothing could be done", true)
	}
	_, err := p.prune(smallPrune())
	require.NoError(t, err)
	p.requireWhole("with room")
}

// fewPacks is a store that has room for so many more packs, and for all else.
type fewPacks struct {
	store.Store
	left atomic.Int64
}

func (f *fewPacks) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Pack && f.left.Add(-1) < 0 {
		return store.ErrNoSpace
	}
	return f.Store.Put(ctx, name, data)
}

// TestPruneTakesBackWhatItWroteInVain: a prune that ran out of room among the packs that it writes anew leaves less than there
// was, and nothing that keeps the next one, with room, from removing all there is to remove.
func TestPruneTakesBackWhatItWroteInVain(t *testing.T) {
	opt := smallPrune()
	opt.MaxUnused = prune.Limit{Bytes: 0}
	opt.Session.Tuning.Segment = 100 // no segment is full, which would be put there and then
	for packs := range int64(5) {
		p := newPruned(t, mem.New())
		first := p.snapshot(1)
		require.NoError(t, os.WriteFile(filepath.Join(p.src, "trash"), testkit.Noise(77, 900_000), 0o644))
		second := p.snapshot(2)
		require.NoError(t, os.Remove(filepath.Join(p.src, "trash")))
		p.snapshot(3)
		p.forget(first, second)
		before, inner := bytesOf(t, p.st, store.Pack), p.st
		short := &fewPacks{Store: inner}
		short.left.Store(packs)
		p.st = short
		res, err := p.prune(opt)
		p.st = inner
		if err != nil {
			require.ErrorIs(t, err, store.ErrNoSpace)
			require.Zero(t, res.Held, "with room for %d packs", packs)
		}
		require.Less(t, bytesOf(t, inner, store.Pack), before-900_000, "with room for %d packs", packs)
		p.requireRestorable("after a prune that ran out of room", true)
		_, err = p.prune(opt)
		require.NoError(t, err)
		p.requireWhole("with room")
	}
}
