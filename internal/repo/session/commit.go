package session

import (
	"context"
	"sync"
	"time"
)

// commitRegularly bounds how much work a killed session loses. A stored pack gets its index segment after
// Tuning.Interval even if no other pack follows, and an open pack is stored incomplete after Tuning.OpenPack. It
// returns a function that stops it.
func (s *Session) commitRegularly() (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(max(1, min(s.opt.Tuning.Interval, s.opt.Tuning.OpenPack)/4))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := s.commitDue(ctx); err != nil && ctx.Err() == nil {
				_ = s.fail(err)
				return
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (s *Session) commitDue(ctx context.Context) error {
	now := s.opt.Tuning.Now()
	for _, p := range s.packers {
		if err := p.flushOpened(now.Add(-s.opt.Tuning.OpenPack)); err != nil {
			return err
		}
	}
	return s.commit(ctx, now.Add(-s.opt.Tuning.Interval))
}

// commit writes an index segment for all packs that have none, if the first of them is from before a moment; zero: in
// any case.
func (s *Session) commit(ctx context.Context, before time.Time) error {
	s.committing.Lock()
	defer s.committing.Unlock()
	if batch := s.seg.take(before); len(batch) > 0 {
		return s.writeSegment(ctx, batch)
	}
	return nil
}

// flushOpened completes the open pack if it was begun before a moment and is idle.
func (p *packer) flushOpened(before time.Time) error {
	if !p.mu.TryLock() {
		return nil
	}
	defer p.mu.Unlock()
	if p.open == nil || p.open.Frames() == 0 || p.opened.After(before) {
		return nil
	}
	return p.dispatch()
}

// begins is called before a pack is stored.
func (s *Session) begins() {
	if !s.opt.DryRun && s.opt.Task != PruneTask {
		s.unfinishedOnce.Do(func() {
			s.unfinished = true
			s.to.Index.SetUnfinished(true)
		})
	}
}
