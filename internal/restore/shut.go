package restore

import (
	"github.com/tidemark-backup/tidemark/internal/restore/access"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// shut gives d, if it was widened, the permissions back that it had.
func (j *job) shut(d *dir) error {
	was, ok := j.handles.widened.Take(d)
	if !ok {
		return nil
	}
	h, err := j.handles.get(d)
	if err != nil {
		return err
	}
	defer h.Release()
	return access.Set(h, ".", tree.Dir, was)
}

// shutAll does so with all that are left.
func (j *job) shutAll() {
	for d := range j.handles.widened.All() {
		_ = j.shut(d)
	}
}

// leave is for who has only looked into d.
func (j *job) leave(d *dir) {
	if err := j.shut(d); err != nil {
		j.tell(d.path, "set permissions back", err)
	}
	j.handles.drop(d)
}
