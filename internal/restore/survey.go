package restore

import (
	"context"
	"time"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
)

// surveyExamples is how many paths of each kind a Survey remembers.
const surveyExamples = 10

// Survey is what a restore would replace or remove without consent. Only the walker of a dry run adds to it.
type Survey struct {
	Differ   uint64   // objects that would be replaced by other content
	Examples []string // their paths inside the snapshot
	Extra    uint64   // objects that would be removed
	Removed  []string // the paths of these, without what lies in a directory that would be removed
}

// few reports whether the survey still needs examples. Then it is worth a look whether a file is half-made.
func (s *Survey) few() bool { return len(s.Examples) < surveyExamples }

// Look compares existing objects with the selection, by the overwrite rule of the target. It reads files of equal size
// whose times differ from the snapshot or are later than it, and those that a killed restore may have left half-made.
// It changes nothing.
func Look(ctx context.Context, r *repo.Repository, sel Selection, to Target) (*Survey, error) {
	sel.Planned = nil
	to.DryRun, to.Unasked, to.Asked = true, false, time.Time{} // consent is what the survey is for
	to.Apply = localfs.ApplyOptions{SkipOwner: true, SkipMode: true, SkipXattrs: true, SkipTimes: true, SkipFlags: true}
	j := &job{repo: r, sel: sel, to: to, ledger: report.NewJob(report.Restore, time.Now), survey: &Survey{}}
	if _, err := j.run(ctx, 1); err != nil {
		return nil, err
	}
	return j.survey, nil
}

// replaces adds an object that would be replaced. A nil s collects nothing.
func (s *Survey) replaces(path string) {
	if s == nil {
		return
	}
	s.Differ++
	if len(s.Examples) < surveyExamples {
		s.Examples = append(s.Examples, path)
	}
}

// removes adds n objects that would be removed with the one at path. A nil s collects nothing.
func (s *Survey) removes(path string, n uint64) {
	if s == nil || n == 0 {
		return
	}
	s.Extra += n
	if len(s.Removed) < surveyExamples {
		s.Removed = append(s.Removed, path)
	}
}
