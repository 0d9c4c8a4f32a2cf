package blobindex

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/hashcache/held"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
)

// known is one cache: the file that outlives the run, a temporary one, or memory.
type known interface {
	Lookup(ids []format.ID, out []hashcache.Found) error
	Pack(n uint32) (hashcache.PackInfo, error)
	Segments() ([]format.ID, error)
	Merge(id format.ID, seg *index.Segment) error
	Drop() error
	Close() error
}

// place is where a cache can be made.
type place struct {
	dir  string // empty: in memory
	open func() (known, error)
}

// layers are the caches of one run. There is one, until it fails.
//
//   - One that is damaged, or cannot be read any more, is lost: it is not asked again, its file is removed, and what it
//     held is read anew from the target, into the cache that takes its place.
//   - One that cannot be written, because its disk is full above all, is kept and asked, and the next one takes what is
//     new. But if most of it is of this run, it is given up as well: its remains must not keep the disk full.
//
// The places for the next one are, in this order: the folder of the cache, that for temporary files, and memory, which is
// bounded and never fails. So a run meets at most as many failures as there are places. Numbers of packs say in which
// layer they count; those of one that is lost lead nowhere.
type layers struct {
	note   func(text string, args ...any)
	limit  int        // of blobs in memory
	adding sync.Mutex // held by who merges, drops, loses or adds a layer
	places []place    // for the next one
	told   bool
	closed bool

	list   atomic.Pointer[[]*layer]
	losses atomic.Int64 // layers that were lost
	made   atomic.Int64 // losses that were made up for
}

type layer struct {
	known
	dir  string
	lost atomic.Bool
}

const (
	// layerShift is where the number of a layer stands in that of a pack: above all numbers of packs, and below the marks that
	// others set (secondPack).
	layerShift = 29
	packMask   = 1<<layerShift - 1
)

// lacks reports whether a layer was lost, and what it held was not made up for.
func (s *layers) lacks() bool { return s.losses.Load() != s.made.Load() }

func (s *layers) all() []*layer {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

// first returns the first layer, which is opened if there is none.
func (s *layers) first() (known, error) {
	if list := s.all(); len(list) > 0 {
		return list[0].known, nil
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	if _, err := s.top(); err != nil {
		return nil, err
	}
	return s.all()[0].known, nil
}

// top returns the layer that takes what is new. The caller holds s.adding.
func (s *layers) top() (*layer, error) {
	list := s.all()
	if n := len(list); n > 0 && !list[n-1].lost.Load() {
		return list[n-1], nil
	}
	if err := s.add(); err != nil {
		return nil, err
	}
	list = s.all()
	return list[len(list)-1], nil
}

// add opens a layer at the next place that can be used.
func (s *layers) add() error {
	for {
		next := place{open: func() (known, error) { return held.New(s.limit), nil }}
		if len(s.places) > 0 {
			next, s.places = s.places[0], s.places[1:]
		}
		c, err := next.open()
		if errors.Is(err, hashcache.ErrStopped) {
			return err
		}
		if err == nil {
			list := append(append([]*layer(nil), s.all()...), &layer{known: c, dir: next.dir})
			s.list.Store(&list)
			return nil
		}
	}
}

// judge makes an error of a layer what is to be done about it: a layer that fails is lost.
func (s *layers) judge(l *layer, err error) error {
	if err == nil || errors.Is(err, hashcache.ErrStopped) || errors.Is(err, hashcache.ErrNoPack) {
		return err
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	if s.closed {
		return err
	}
	s.lose(l, err)
	return errLost
}

// lose gives a layer up. The caller holds s.adding.
func (s *layers) lose(l *layer, why error) {
	if l.lost.Swap(true) {
		return
	}
	s.losses.Add(1)
	c, onDisk := l.known.(*hashcache.Cache)
	if !onDisk {
		return
	}
	c.GiveUp()
	if !c.Tell() || s.told {
		return
	}
	s.told = true
	if errors.Is(why, hashcache.ErrDamaged) {
		s.note("the local cache cannot be read and is removed: this run goes on with a temporary one, and the next makes it anew: %v", why)
		return
	}
	s.note("%s", s.noRoom(l, why))
}

func (s *layers) noRoom(l *layer, why error) string {
	return fmt.Sprintf("the local cache in %s cannot be written: this run goes on, but does not keep what it learns; make room there, or "+
		"choose another folder with --cache-dir: %v", l.dir, why)
}

// Lookup finds out where blobs lie, in the newest layer first.
func (s *layers) Lookup(ids []format.ID, out []hashcache.Found) error {
	if len(out) != len(ids) {
		return fmt.Errorf("look up %d blobs: room for %d answers", len(ids), len(out))
	}
	if s.lacks() {
		return errLost
	}
	list := s.all()
	if len(list) == 1 {
		return s.judge(list[0], list[0].Lookup(ids, out))
	}
	clear(out)
	for n := len(list) - 1; n >= 0; n-- {
		if list[n].lost.Load() {
			continue
		}
		if err := s.judge(list[n], missing(list[n], ids, out, uint32(n)<<layerShift)); err != nil {
			return err
		}
	}
	return nil
}

// asked is who can look up blobs.
type asked interface {
	Lookup(ids []format.ID, out []hashcache.Found) error
}

// missing looks up those blobs that were not found before, and marks the numbers of their packs.
func missing(in asked, ids []format.ID, out []hashcache.Found, mark uint32) error {
	var rest []format.ID
	var at []int
	for i := range ids {
		if !out[i].OK {
			rest, at = append(rest, ids[i]), append(at, i)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	found := make([]hashcache.Found, len(rest))
	if err := in.Lookup(rest, found); err != nil {
		return err
	}
	for j, i := range at {
		if out[i] = found[j]; out[i].OK {
			out[i].Loc.Pack |= mark
		}
	}
	return nil
}

// Pack returns what is known of a pack. One of a layer that is lost is none.
func (s *layers) Pack(n uint32) (hashcache.PackInfo, error) {
	list, in := s.all(), n>>layerShift
	if int64(in) >= int64(len(list)) || list[in].lost.Load() {
		return hashcache.PackInfo{}, fmt.Errorf("pack %d: %w", n, hashcache.ErrNoPack)
	}
	info, err := list[in].Pack(n & packMask)
	if err = s.judge(list[in], err); errors.Is(err, errLost) {
		err = fmt.Errorf("pack %d: %w", n, hashcache.ErrNoPack)
	}
	return info, err
}

// packs yields every pack that the layers name, some more than once.
func (s *layers) packs(yield func(format.ID) error) error {
	for _, l := range s.all() {
		for n := uint32(0); !l.lost.Load(); n++ {
			info, err := l.Pack(n)
			if errors.Is(err, hashcache.ErrNoPack) {
				break
			}
			if err = s.judge(l, err); err != nil {
				return err
			}
			if err := yield(info.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

// Segments returns which index segments were merged.
func (s *layers) Segments() (ids []format.ID, err error) {
	if _, err := s.first(); err != nil {
		return nil, err
	}
	for _, l := range s.all() {
		if l.lost.Load() {
			continue
		}
		more, err := l.Segments()
		if err = s.judge(l, err); err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	}
	return ids, nil
}

// Merge adds what a segment says.
func (s *layers) Merge(id format.ID, seg *index.Segment) error {
	s.adding.Lock()
	defer s.adding.Unlock()
	for {
		l, err := s.top()
		if err != nil {
			return err
		}
		err = l.Merge(id, seg)
		switch {
		case err == nil || errors.Is(err, hashcache.ErrStopped) || s.closed:
			return err
		case !s.full(l, err):
			s.lose(l, err)
			return errLost
		}
	}
}

// full adds a layer above one that cannot be written, and reports false if that one is not to be kept. The caller holds
// s.adding.
func (s *layers) full(l *layer, why error) bool {
	c, onDisk := l.known.(*hashcache.Cache)
	if errors.Is(why, hashcache.ErrDamaged) || !onDisk {
		return false
	}
	for len(s.places) > 0 && s.places[0].dir != "" && c.SharesDisk(s.places[0].dir) {
		s.places = s.places[1:] // it would be full as well
	}
	if c.Grown() || s.add() != nil {
		return false
	}
	if c.Tell() && !s.told {
		s.told = true
		s.note("%s", s.noRoom(l, why))
	}
	return true
}

// Drop forgets all blobs, packs and segments. A layer that cannot is lost, which makes no difference.
func (s *layers) Drop() error {
	s.adding.Lock()
	defer s.adding.Unlock()
	for _, l := range s.all() {
		if l.lost.Load() {
			continue
		}
		if err := l.Drop(); errors.Is(err, hashcache.ErrStopped) {
			return err
		} else if err != nil {
			s.lose(l, err)
		}
	}
	return nil
}

// tooMuch reports whether blobs were left out, because memory is bounded.
func (s *layers) tooMuch() bool {
	for _, l := range s.all() {
		if x, inMemory := l.known.(*held.Index); inMemory && x.Full() {
			return true
		}
	}
	return false
}

// close releases the caches. What is wrong with them now is no concern of a run that is over.
func (s *layers) close() {
	s.adding.Lock()
	defer s.adding.Unlock()
	s.closed = true
	for _, l := range s.all() {
		if err := l.Close(); err != nil && !s.told {
			s.told = true
			s.note("the local cache in %s cannot be put away: %v", l.dir, err)
		}
	}
}
