// Package recall is what a backup remembers of directories between runs: their signatures, in the local cache. What is
// remembered counts only while a snapshot that contains the directory's tree is in the repository.
//
// It only saves time: when the cache cannot be read or written, a disk that is full above all, the run goes on without.
// The package refuses to know what a signature is made of, and what follows from one that is equal.
package recall

import (
	"errors"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Memory is what is remembered. A nil one remembers nothing. It is safe for concurrent use, but for Commit and Discard.
type Memory struct {
	ledger *report.Ledger
	broken atomic.Bool
	blank  bool
	cache  *hashcache.Cache
	batch  *hashcache.DirBatch
	starts map[format.ID]tree.Time // of the backups whose snapshots are in the repository
}

// Open returns what the cache of a repository remembers for those of the listed snapshots that could be read. If the cache
// cannot be used that is noted in the ledger, and the Memory is nil. If blank is set, nothing is recalled, only remembered
// anew.
func Open(r *repo.Repository, listed []repo.Listed, blank bool, l *report.Ledger) (*Memory, error) {
	cache, err := r.Cache()
	if err != nil {
		return nil, err
	}
	m := &Memory{ledger: l, blank: blank, cache: cache, starts: make(map[format.ID]tree.Time, len(listed))}
	ids := make([]format.ID, 0, len(listed))
	for _, l := range listed {
		if l.Snapshot != nil {
			ids = append(ids, l.ID)
			m.starts[l.ID] = l.Snapshot.Start
		}
	}
	if err := cache.SetLiveSnapshots(ids); err != nil {
		m.forget(err)
		return nil, nil
	}
	m.batch = cache.NewDirBatch()
	return m, nil
}

// forget ends the use of the cache for directories, and tells it once.
func (m *Memory) forget(err error) {
	if err != nil && !m.broken.Swap(true) && !errors.Is(err, hashcache.ErrStopped) {
		m.ledger.Note("", "remember directories in the cache", err)
	}
}

// usable reports whether the cache is still used.
func (m *Memory) usable() bool { return m != nil && !m.broken.Load() }

// Directory is what is remembered of one.
type Directory struct {
	signature.Memo
	Start tree.Time        // of the backup that wrote its tree
	Ref   hashcache.DirRef // for Keep
}

// Find returns what is remembered under a key. It is read into room, if that is large enough.
func (m *Memory) Find(key signature.Signature, room []byte) (d Directory, ok bool) {
	if !m.usable() || m.blank {
		return d, false
	}
	hit, ok, err := m.cache.Dir(key, room)
	if err != nil {
		m.forget(err)
		return d, false
	}
	if !ok {
		return d, false
	}
	memo, ok := signature.ParseMemo(hit.Value)
	return Directory{memo, m.starts[hit.Snapshot], hit.Ref}, ok
}

// Put remembers a directory under a key. That becomes valid with Commit.
func (m *Memory) Put(key signature.Signature, memo *signature.Memo) {
	if m.usable() {
		m.forget(m.batch.Put(key, memo.Append(nil)))
	}
}

// Keep notes that what was found holds for the snapshot of this run too.
func (m *Memory) Keep(ref hashcache.DirRef) {
	if m != nil {
		m.batch.Keep(ref)
	}
}

// Commit makes what this run remembered count, now that its snapshot is saved.
func (m *Memory) Commit(snapshot format.ID) {
	if m.usable() {
		m.forget(m.batch.Commit(snapshot))
	}
}

// Discard forgets what this run remembered; after Commit it does nothing.
func (m *Memory) Discard() {
	if m != nil {
		m.forget(m.batch.Discard())
	}
}
