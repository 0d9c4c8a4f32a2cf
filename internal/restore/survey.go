package restore

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Replaced counts objects of the target that a restore replaced. An object whose content is equal is not replaced.
type Replaced struct {
	Objects uint64
	Newer   uint64 // of these, those that were changed after the snapshot was made
}

// countReplaced counts one object.
func (j *job) countReplaced(newer bool) {
	j.replaced.Add(1)
	if newer {
		j.newer.Add(1)
	}
}

// coarsest is the step, in seconds, in which the coarsest file system stores times.
const coarsest = 2

// changedSince reports whether an existing object with status st was changed after the snapshot, also if its
// modification time was set back. One that changed during the backup and was stored like that was not, and neither was
// one that a restore wrote.
func (j *job) changedSince(n *tree.Node, st *localfs.Stat) bool {
	differs := st.Type != n.Type || n.Type == tree.File && st.Size != n.Size
	switch apart := st.Mtime.Sec - n.ModTime.Sec; {
	case j.sel.Made == tree.Time{}:
		return false
	case isLater(st.Mtime, j.sel.Made):
		return differs || st.Mtime != n.ModTime
	case isLater(st.Ctime, j.sel.Made):
		return differs || max(apart, -apart) > coarsest
	}
	return false
}

func isLater(t, than tree.Time) bool {
	return t.Sec > than.Sec || t.Sec == than.Sec && t.Nsec > than.Nsec
}

// surveyExamples is how many paths of each kind a Survey remembers.
const surveyExamples = 10

// Survey is what a restore would replace or remove without consent.
type Survey struct {
	// Newer counts objects that would be replaced although they were changed after the snapshot, by their times; for an
	// unasked restore, also those that differ otherwise.
	Newer    uint64
	Examples []string // their paths inside the snapshot
	Extra    uint64   // objects that would be removed
	Removed  []string // the paths of these, without what lies in a directory that would be removed

	mu sync.Mutex
}

func (s *Survey) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Newer++
	if len(s.Examples) < surveyExamples {
		s.Examples = append(s.Examples, path)
	}
}

func (s *Survey) addExtra(path string, objects uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Extra += objects
	if len(s.Removed) < surveyExamples {
		s.Removed = append(s.Removed, path)
	}
}

// few reports whether the survey still needs examples. Then the contents of small files are worth a look.
func (s *Survey) few() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Examples) < surveyExamples
}

// Look compares the status of existing objects with the selection, by the overwrite rule of the target. It reads only
// files that a killed restore may have left half-made, and changes nothing.
func Look(ctx context.Context, r *repo.Repository, sel Selection, to Target) (*Survey, error) {
	sel.Planned = nil
	to.DryRun, to.Verify = true, false
	j := &job{repo: r, sel: sel, to: to, ledger: report.NewJob(report.Restore, time.Now), survey: &Survey{}}
	if _, err := j.run(ctx, Parallel{Workers: 1}); err != nil {
		return nil, err
	}
	return j.survey, nil
}
