package backup

import (
	"errors"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// memory connects the pipeline with the directory signatures in the hash cache. An entry counts only while a snapshot
// that contains its tree is in the repository.
//
// It only saves time: when the cache cannot be read or written, a disk that is full above all, the run goes on without.
type memory struct {
	ledger *report.Ledger
	broken atomic.Bool
	cache  *hashcache.Cache
	batch  *hashcache.DirBatch
	starts map[format.ID]tree.Time // of the backups whose snapshots are in the repository
}

// openMemory returns nil, which remembers nothing, when the job asks for that.
func openMemory(r *repo.Repository, listed []repo.Listed, job *Job, l *report.Ledger) (*memory, error) {
	if job.NoMemory || job.Stdin != nil {
		return nil, nil
	}
	cache, err := r.Cache()
	if err != nil {
		return nil, err
	}
	m := &memory{ledger: l, cache: cache, starts: make(map[format.ID]tree.Time, len(listed))}
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
func (m *memory) forget(err error) {
	if err != nil && !m.broken.Swap(true) && !errors.Is(err, hashcache.ErrStopped) {
		m.ledger.Note("", "remember directories in the cache", err)
	}
}

func (m *memory) hooks() Memory {
	if m == nil {
		return Memory{}
	}
	return Memory{
		Dir: func(key [16]byte, room []byte) (value []byte, start tree.Time, ref hashcache.DirRef, ok bool, err error) {
			if m.broken.Load() {
				return nil, start, ref, false, nil
			}
			hit, ok, err := m.cache.Dir(key, room)
			if err != nil {
				m.forget(err)
				return nil, start, ref, false, nil
			}
			return hit.Value, m.starts[hit.Snapshot], hit.Ref, ok, nil
		},
		Put: func(key [16]byte, value []byte) error {
			if !m.broken.Load() {
				m.forget(m.batch.Put(key, value))
			}
			return nil
		},
		Keep: m.batch.Keep,
	}
}

// commit makes what this run remembered count, now that its snapshot is saved.
func (m *memory) commit(snapshot format.ID) {
	if m != nil && !m.broken.Load() {
		m.forget(m.batch.Commit(snapshot))
	}
}

// discard forgets what this run remembered; after commit it does nothing.
func (m *memory) discard() {
	if m != nil {
		m.forget(m.batch.Discard())
	}
}
