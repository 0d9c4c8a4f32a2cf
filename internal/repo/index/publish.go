package index

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
)

// relist opens the runs of the folder that are not open yet, and closes those that were merged. Runs that another
// process has removed stay open, as the newest. With the lock it also removes what is dead, and damaged runs with all
// newer ones; without it they are not used, and untidy reports that there are some. The caller holds c.write.
func (c *Cache) relist(locked bool) (untidy bool, err error) {
	const tries = 20 // with each of them another process has published
	for try := 1; ; try++ {
		live, rest, err := c.shared.list()
		if err != nil {
			return false, err
		}
		if locked && c.shared.sweep(rest) {
			c.note("the cache of an earlier version was removed: the index is read again")
		}
		named, err := c.openAll(live)
		if errors.Is(err, fs.ErrNotExist) && !locked && try < tries {
			continue
		}
		if err != nil && (errors.Is(err, localfs.ErrStopped) || !locked && errors.Is(err, fs.ErrNotExist)) {
			return false, err
		}
		untidy = err != nil
		if err != nil {
			if err := c.skip(err, live[len(named):], locked); err != nil {
				return false, err
			}
			live = live[:len(named)]
		}
		c.install(named, live)
		return untidy, nil
	}
}

// skip leaves out runs because the first one cannot be opened.
func (c *Cache) skip(why error, runs []span, locked bool) error {
	if errors.Is(why, cachefile.ErrBusy) {
		return nil // it is being removed
	}
	if !errors.Is(why, errBad) && c.opt.First() {
		c.note("the local cache cannot be used as it is, a part of it is made again: %v", why)
	}
	if !locked {
		return nil
	}
	return c.shared.remove(runs)
}

// openAll opens runs, or takes them from those that are open. After an error it returns those before it.
func (c *Cache) openAll(live []span) (named []*run, err error) {
	for _, s := range live {
		path := c.shared.path(s)
		if c.isBad(path) {
			return named, errBad
		}
		i := slices.IndexFunc(c.runs, func(r *run) bool { return r.span == s && r.file.Has(path) })
		if i >= 0 {
			named = append(named, c.runs[i])
			continue
		}
		r, err := c.openRun(path)
		if err != nil {
			return named, err
		}
		r.span = s
		named = append(named, r)
	}
	return named, nil
}

// install replaces the runs by the named ones and those that only this process has.
func (c *Cache) install(named []*run, live []span) {
	next := slices.Clone(named)
	var gone []*run
	for _, r := range c.runs {
		switch {
		case slices.Contains(named, r):
		case r.span != span{} && slices.ContainsFunc(live, func(s span) bool { return s.covers(r.span) }):
			gone = append(gone, r)
		default:
			r.span = span{} // no longer one of the folder
			next = append(next, r)
		}
	}
	c.replace(next, gone, nil)
}

// replace sets the runs and, unless it is nil, memory, and closes those that are gone when no lookup reads them.
func (c *Cache) replace(next, gone []*run, memory *memory) {
	left := int64(maxFilters)
	for _, r := range slices.Backward(next) { // newer runs are searched first
		size := int64(r.Filter) * filterBlock
		r.keepFilter(size <= left)
		if size <= left {
			left -= size
		}
	}
	c.mu.Lock()
	c.runs = next
	if memory != nil {
		c.memory = memory
	}
	c.mu.Unlock()
	for _, r := range gone {
		_ = r.file.Close()
	}
}

// spill makes a run of a full memory, at the first place that takes it. Where none does, memory stays.
func (c *Cache) spill() error {
	for len(c.places) > 0 {
		if err := c.store(true); err == nil || errors.Is(err, ErrLost) || errors.Is(err, localfs.ErrStopped) {
			return err
		}
	}
	return nil
}

// store makes a run of what is in memory, at the first place. Unless it must, it does so only for a run that it can
// publish. A failed place is not used again.
func (c *Cache) store(must bool) error {
	if len(c.memory.segments) == 0 {
		return nil
	}
	at := c.places[0]
	add := func() error {
		if err := c.add(at, c.memory.content()); err != nil {
			return err
		}
		return c.mergeRuns(at)
	}
	var err error
	if !at.named {
		err = add()
	} else {
		err = c.locked(func(locked bool) error {
			if locked {
				if _, err := c.relist(true); err != nil {
					return err
				}
			}
			if at.named = locked && !c.alone() && !c.overtaken(); !at.named {
				at.dir = c.opt.Dir // where no other process sweeps
			}
			if !at.named && !must {
				return nil
			}
			return add()
		})
	}
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, localfs.ErrStopped) {
		return err
	}
	if failed := c.fail("the local cache in %s cannot be written: this run continues, but saves nothing to it; free "+
		"space there, or choose another folder with --cache-dir: %v", at.dir, err); failed != nil {
		return failed
	}
	return err
}

// alone reports whether this process has runs that it could not publish. What is newer is not published either: another
// process would merge their segments as the newest.
func (c *Cache) alone() bool {
	return slices.ContainsFunc(c.runs, func(r *run) bool { return r.span == span{} })
}

// overtaken reports whether another process has published a segment that is in memory. A second run with it could hide
// newer places of its blobs.
func (c *Cache) overtaken() bool {
	for id := range c.memory.segments {
		if c.inRuns(id) {
			return true
		}
	}
	return false
}

// add writes what is in memory as a run of a place.
func (c *Cache) add(at place, content *content) error {
	s := span{}
	if at.named {
		s.first = 1
		for _, r := range c.runs {
			s.first = max(s.first, r.span.last+1)
		}
		s.last = s.first
	}
	r, err := c.writeRun(at, s, content)
	if err == nil {
		c.replace(append(slices.Clone(c.runs), r), nil, newMemory(c.limit()))
	}
	return err
}

// writeRun writes a run and opens it: under its name, or without one.
func (c *Cache) writeRun(at place, s span, content *content) (*run, error) {
	f, err := content.write(at.dir, c.opt.Repo, c.io(at.dir), at.named)
	if f == nil {
		return nil, err
	}
	if err == nil && at.named {
		err = f.Rename(c.shared.path(s))
	}
	if err != nil {
		if at.named {
			_ = os.Remove(f.Path())
		}
		return nil, errors.Join(err, f.Close())
	}
	r, err := newRun(f, at.dir, c.opt.Repo)
	if err == nil {
		r.span, r.own = s, true
	}
	return r, err
}

// mergeRuns merges runs while there are too many of one order of magnitude, of those with a name or of those without.
// Without space for that they stay as they are.
func (c *Cache) mergeRuns(at place) error {
	for !c.noMerge {
		first := slices.IndexFunc(c.runs, func(r *run) bool { return r.span == span{} })
		if first < 0 {
			first = len(c.runs)
		}
		base, part := 0, c.runs[:first]
		if !at.named {
			base, part = first, c.runs[first:]
		}
		n := mergeable(part)
		if n == 0 {
			return nil
		}
		old := part[len(part)-n:]
		s := span{old[0].span.first, old[n-1].span.last}
		content, err := merged(old)
		var r *run
		if err == nil {
			r, err = c.writeRun(at, s, content)
		}
		if errors.As(err, new(*damagedRun)) {
			return c.dropDamaged(err)
		}
		if err != nil {
			c.noMerge = !errors.Is(err, localfs.ErrStopped)
			return nil
		}
		gone := slices.Clone(old)
		c.replace(slices.Replace(slices.Clone(c.runs), base+len(part)-n, base+len(part), r), gone, nil)
		if at.named {
			for _, r := range gone {
				_ = os.Remove(c.shared.path(r.span)) // it is dead: the lock's next holder sweeps it
			}
		}
	}
	return nil
}

// mergeable returns how many of the newest runs are to be merged into one. From the oldest to the newest, orders of
// magnitude never rise: a long run after short ones absorbs them, and runsPerClass runs of one order become one of the
// next. So n blobs lie in at most runsPerClass runs per order.
func mergeable(runs []*run) int {
	if len(runs) == 0 {
		return 0
	}
	newest := len(runs) - 1
	first := newest
	for first > 0 && runs[first-1].class() < runs[newest].class() {
		first--
	}
	if first < newest {
		return len(runs) - first
	}
	for end := len(runs); end > 0; end = first {
		class := runs[end-1].class()
		for first = end - 1; first > 0 && runs[first-1].class() == class; {
			first--
		}
		if end-first >= runsPerClass {
			return len(runs) - first
		}
	}
	return 0
}

// check drops a run that could not be read, and returns ErrLost then.
func (c *Cache) check(err error) error {
	if !errors.As(err, new(*damagedRun)) {
		return err
	}
	c.write.Lock()
	defer c.write.Unlock()
	if c.closed {
		return err
	}
	return c.dropDamaged(err)
}

// dropDamaged drops a run that cannot be read, with all that is newer, and returns ErrLost. It returns all other errors
// as they are.
func (c *Cache) dropDamaged(err error) error {
	damaged := (*damagedRun)(nil)
	if !errors.As(err, &damaged) || errors.Is(err, localfs.ErrStopped) {
		return err
	}
	i := slices.Index(c.runs, damaged.run)
	if i < 0 {
		return ErrLost // dropped by another goroutine, or merged since
	}
	if c.opt.First() {
		c.note("a part of the local cache cannot be read and is made again: %v", damaged.err)
	}
	c.losses.Add(1)
	if err := c.cut(i); err != nil {
		return err
	}
	return ErrLost
}

// cut drops the runs from an index on and what is in memory. With the lock it also removes their files.
func (c *Cache) cut(i int) error {
	gone := slices.Clone(c.runs[i:])
	var spans []span
	for _, r := range gone {
		if (r.span != span{}) && r.file.Has(c.shared.path(r.span)) {
			spans = append(spans, r.span)
		}
	}
	if len(spans) > 0 {
		err := c.locked(func(locked bool) error {
			if locked && c.shared.remove(spans) == nil {
				return nil
			}
			for _, r := range gone { // another process removes them, or this one later
				c.bad = append(c.bad, r.file.Identity())
			}
			return nil
		})
		if errors.Is(err, localfs.ErrStopped) {
			return err
		}
	}
	c.replace(slices.Clone(c.runs[:i]), gone, newMemory(c.limit()))
	return nil
}

// fail ends the use of a folder that cannot be written. What this process has written there is dropped, so that it does
// not keep a disk full; then the error is ErrLost.
func (c *Cache) fail(text string, args ...any) error {
	dir := c.places[0].dir
	disk := func(dir string) bool { return dir == c.opt.Dir || dir == c.shared.runs() }
	c.places = slices.DeleteFunc(c.places, func(p place) bool { return p.dir == dir || disk(p.dir) && disk(dir) })
	c.mu.Lock()
	c.memory.bound(c.limit())
	c.mu.Unlock()
	if c.opt.First() {
		c.note(text, args...)
	}
	i := slices.IndexFunc(c.runs, func(r *run) bool { return r.own && (r.dir == dir || disk(r.dir) && disk(dir)) })
	if i < 0 {
		return nil
	}
	c.losses.Add(1)
	if err := c.cut(i); err != nil {
		return err
	}
	return ErrLost
}

// isBad reports whether a file is one that was dropped.
func (c *Cache) isBad(path string) bool {
	if len(c.bad) == 0 {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && slices.ContainsFunc(c.bad, func(had os.FileInfo) bool {
		return os.SameFile(had, now) && had.ModTime().Equal(now.ModTime())
	})
}

// Restored ends a loss, unless another one was found after before, the value of Losses when the segments were listed.
func (c *Cache) Restored(before int64) { c.restored.Store(before) }

// Losses returns how often runs were dropped.
func (c *Cache) Losses() int64 { return c.losses.Load() }
