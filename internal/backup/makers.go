package backup

import (
	"errors"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// maker makes tree pages. Any goroutine may finish a directory, so makers are lent: there are as many as directories
// are finished at the same time.
type maker struct {
	*pipeline
	builder *tree.Builder
	writer  *repo.FrameWriter
	hasher  *seal.Hasher
	node    tree.Node
	born    tree.Time
	id      [1]format.ID
	fresh   [1]bool
}

type makers struct {
	p    *pipeline
	mu   sync.Mutex
	free []*maker
	all  []*maker
}

func newMakers(p *pipeline) *makers { return &makers{p: p} }

func (s *makers) get() *maker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		m := s.free[n-1]
		s.free = s.free[:n-1]
		return m
	}
	m := &maker{pipeline: s.p, writer: s.p.Session.Writer(pack.Trees), hasher: s.p.Repo.Keys().Hasher()}
	m.builder = tree.NewBuilder(m.emit)
	s.all = append(s.all, m)
	return m
}

func (s *makers) put(m *maker) {
	s.mu.Lock()
	s.free = append(s.free, m)
	s.mu.Unlock()
}

// flush puts the last, partly filled frames into packs.
func (s *makers) flush() error {
	var err error
	for _, m := range s.all {
		err = errors.Join(err, m.writer.Flush())
	}
	return err
}

// emit stores a page unless the repository has it.
func (m *maker) emit(page []byte) (format.ID, error) {
	m.id[0] = m.hasher.ID(page)
	if err := m.Session.Claim(m.id[:], m.fresh[:]); err != nil {
		return format.ID{}, err
	}
	if !m.fresh[0] {
		return m.id[0], nil
	}
	m.Ledger.Bytes.Trees.Add(uint64(len(page)))
	m.Ledger.Bytes.Processed.Add(uint64(len(page)))
	return m.id[0], m.writer.Add(m.id[0], page)
}
