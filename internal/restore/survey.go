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

// changedSince reports whether an existing object with status st was changed after the snapshot, also if its
// modification time was set back.
func (j *job) changedSince(st *localfs.Stat) bool {
	return j.sel.Made != tree.Time{} && (isLater(st.Mtime, j.sel.Made) || isLater(st.Ctime, j.sel.Made))
}

func isLater(t, than tree.Time) bool {
	return t.Sec > than.Sec || t.Sec == than.Sec && t.Nsec > than.Nsec
}

// surveyExamples is how many paths of each kind a Survey remembers.
const surveyExamples = 10

// Survey is what a restore would replace or remove without consent.
type Survey struct {
	Differ   uint64   // objects that would be replaced by other content
	Examples []string // their paths inside the snapshot
	Extra    uint64   // objects that would be removed
	Removed  []string // the paths of these, without what lies in a directory that would be removed

	mu sync.Mutex
}

func (s *Survey) add(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Differ++
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

// few reports whether the survey still needs examples. Then it is worth a look whether a file is half-made.
func (s *Survey) few() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.Examples) < surveyExamples
}

// Look compares existing objects with the selection, by the overwrite rule of the target. It reads files of equal size
// whose times differ from the snapshot or are later than it, and those that a killed restore may have left half-made.
// It changes nothing.
func Look(ctx context.Context, r *repo.Repository, sel Selection, to Target) (*Survey, error) {
	sel.Planned = nil
	to.DryRun, to.Verify = true, false
	j := &job{repo: r, sel: sel, to: to, ledger: report.NewJob(report.Restore, time.Now), survey: &Survey{}}
	if _, err := j.run(ctx, Parallel{Workers: 1}); err != nil {
		return nil, err
	}
	return j.survey, nil
}
