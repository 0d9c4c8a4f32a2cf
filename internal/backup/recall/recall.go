// Package recall is what a backup remembers of directories between runs: their signatures and the names in them, in the
// local cache. What is remembered counts only while a snapshot that contains the directory's tree is in the repository, and
// names besides only until the system is started anew.
//
// It only saves time: when the cache cannot be read or written, a disk that is full above all, the run goes on without.
// The package refuses to know what a signature is made of, and what follows from one that is equal.
package recall

import (
	"bytes"
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
	boot   Boot
	renew  bool
}

// Boot tells one run of the system from another. What happens to a file system while it is not mounted, or in a crash, need
// leave no trace in the times of its directories. The zero value is one of which nothing is known: no names are remembered.
type Boot [16]byte

// bootSize is how much of a Boot stands before the names in the cache.
const bootSize = 8

func (b *Boot) tag() []byte { return b[:bootSize] }

// Open returns what the cache of a repository remembers for those of the listed snapshots that could be read. If the cache
// cannot be used that is noted in the ledger, and the Memory is nil. If blank is set, nothing is recalled, only remembered
// anew.
func Open(r *repo.Repository, listed []repo.Listed, blank bool, boot Boot, l *report.Ledger,
) (*Memory, error) {
	cache, err := r.Cache()
	if err != nil || cache == nil {
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
	last, err := cache.DirNote()
	if err != nil {
		m.forget(err)
		return nil, nil
	}
	m.batch = cache.NewDirBatch()
	if boot != (Boot{}) {
		m.boot, m.renew = boot, bytes.Equal(last, boot[:])
		m.batch.Note(boot[:])
	}
	return m, nil
}

// forget ends the use of the cache for directories, and tells it once.
func (m *Memory) forget(err error) {
	if err != nil && !m.broken.Swap(true) && !errors.Is(err, hashcache.ErrStopped) && m.cache.Tell() {
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
	Names []byte           // as they were put since the system was started; nil: none
}

// Find returns what is remembered under a key. It is read into room, if that is large enough, or else into larger one, which
// is returned.
func (m *Memory) Find(key signature.Signature, room []byte) (d Directory, larger []byte, ok bool) {
	if !m.usable() || m.blank {
		return d, room, false
	}
	hit, ok, err := m.cache.Dir(key, room)
	if err != nil {
		m.forget(err)
		return d, room, false
	}
	if !ok || len(hit.Value) < signature.MemoSize {
		return d, room, false
	}
	memo, ok := signature.ParseMemo(hit.Value[:signature.MemoSize])
	d = Directory{Memo: memo, Start: m.starts[hit.Snapshot], Ref: hit.Ref}
	if rest := hit.Value[signature.MemoSize:]; m.boot != (Boot{}) && bytes.HasPrefix(rest, m.boot.tag()) {
		d.Names = rest[bootSize:]
	}
	return d, hit.Value, ok
}

// HoldsNames reports whether names are remembered besides signatures.
func (m *Memory) HoldsNames() bool { return m.usable() && m.boot != (Boot{}) }

// Names returns the names that are remembered under a key, in memory of their own.
func (m *Memory) Names(key signature.Signature) []byte {
	d, _, _ := m.Find(key, nil)
	return d.Names
}

// Renew reports whether the names of directories are to be put again, although nothing but them is new. That is worth it
// where one start of the system sees many runs, and a waste where each run sees its own: so the first leaves it to the second.
func (m *Memory) Renew() bool { return m.usable() && m.renew }

// Put remembers a directory under a key, and the names in it, if there are any to remember. That becomes valid with Commit.
func (m *Memory) Put(key signature.Signature, memo *signature.Memo, names []byte) {
	if !m.usable() {
		return
	}
	value := memo.Append(make([]byte, 0, signature.MemoSize+bootSize+len(names)))
	if len(names) > 0 && m.boot != (Boot{}) {
		value = append(append(value, m.boot.tag()...), names...)
	}
	m.forget(m.batch.Put(key, value))
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
