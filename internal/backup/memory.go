package backup

import (
	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// memory connects the pipeline with the directory signatures in the hash cache. An entry counts only while a snapshot
// that contains its tree is in the repository.
type memory struct {
	cache  *hashcache.Cache
	batch  *hashcache.DirBatch
	starts map[format.ID]tree.Time // of the backups whose snapshots are in the repository
}

// openMemory returns nil, which remembers nothing, when the job asks for that.
func openMemory(r *repo.Repository, listed []repo.Listed, job *Job) (*memory, error) {
	if job.NoMemory || job.Stdin != nil {
		return nil, nil
	}
	cache, err := r.Cache()
	if err != nil {
		return nil, err
	}
	m := &memory{cache: cache, starts: make(map[format.ID]tree.Time, len(listed))}
	ids := make([]format.ID, 0, len(listed))
	for _, l := range listed {
		if l.Snapshot != nil {
			ids = append(ids, l.ID)
			m.starts[l.ID] = l.Snapshot.Start
		}
	}
	if err := cache.SetLiveSnapshots(ids); err != nil {
		return nil, err
	}
	m.batch = cache.NewDirBatch()
	return m, nil
}

func (m *memory) hooks() Memory {
	if m == nil {
		return Memory{}
	}
	return Memory{
		Dir: func(key [16]byte) (value []byte, start tree.Time, ref hashcache.DirRef, ok bool, err error) {
			hit, ok, err := m.cache.Dir(key)
			return hit.Value, m.starts[hit.Snapshot], hit.Ref, ok, err
		},
		Put:  m.batch.Put,
		Keep: m.batch.Keep,
	}
}

// commit makes what this run remembered count, now that its snapshot is saved.
func (m *memory) commit(snapshot format.ID) error {
	if m == nil {
		return nil
	}
	return m.batch.Commit(snapshot)
}

// discard forgets what this run remembered; after commit it does nothing.
func (m *memory) discard() error {
	if m == nil {
		return nil
	}
	return m.batch.Discard()
}
