package read

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// outcome is the result of one attempt to read a file.
type outcome uint8

const (
	unchanged outcome = iota
	fuzzy             // changed, stored all the same
	retry             // changed, to be read again
	drop              // changed, no content stored
)

// status is the status of a file before an attempt to read it.
type status struct {
	localfs.Stat
	racy bool // it changed so recently that a further change may keep the same time
}

// before returns the status of an open file before attempt number try. A file with an unsafe timestamp could be written
// again, while it is read, without a new time; so the read waits until the timestamp is safe. The local clock decides
// only whether to wait: afterwards the unchanged timestamp counts, since it may come from a server's clock.
func (s *Stage) before(ctx context.Context, f *localfs.File, d *Dir, i uint32, try int) (at status, err error) {
	if at.Stat = *f.Opened(); try > 0 {
		if at.Stat, err = f.Stat(); err != nil {
			return at, err
		}
	}
	if scan.Safe(at.Ctime, tree.TimeOf(time.Now())) {
		return at, nil
	}
	wait := scan.Granularity
	if at.Ctime == d.Entries[i].Changed() {
		wait -= time.Since(d.Scanned) // the time since the scan counts
	}
	if wait <= 0 {
		return at, nil
	}
	if err := store.Sleep(ctx, wait); err != nil {
		return at, err
	}
	st, err := f.Stat()
	at.Stat, at.racy = st, st.Ctime != at.Ctime
	return at, err
}

// judge compares a file before and after attempt number try, which read n bytes.
func (o *Options) judge(before *status, after *localfs.Stat, n uint64, try int) outcome {
	if !before.racy && before.Size == after.Size && n == after.Size && before.Mtime == after.Mtime &&
		before.Ctime == after.Ctime {
		return unchanged
	}
	left := try < o.Retries
	switch o.Serialization {
	case options.Static:
		return drop
	case options.Dynamic:
		return fuzzy
	case options.SharedStatic:
		if left {
			return retry
		}
		return drop
	default:
		if left {
			return retry
		}
		return fuzzy
	}
}

// recordOutcome records the outcome of a file whose last attempt was number try.
func (s *Stage) recordOutcome(d *Dir, i uint32, v outcome, try int) {
	r := &d.Results[i]
	switch {
	case v == fuzzy:
		r.Outcome = tree.Dynamic
		s.Ledger.Objects.Changing.Add(1)
		s.Ledger.Note(d.path(i), "read", errCaught)
	case v == drop:
		r.Outcome = tree.Skipped
		s.Ledger.Objects.Changing.Add(1)
		s.Ledger.Fail(d.path(i), "read", fmt.Errorf("%w %d times; its content is not stored (copy serialization %s)",
			ErrChanging, try+1, s.Options.Serialization))
	case try > 0:
		r.Outcome = tree.Retried
	default:
		r.Outcome = tree.Static
	}
}

// updateEntry takes the status of a file after n bytes of it were read, which may be more than when it was scanned.
func (s *Stage) updateEntry(e *scan.Entry, after *localfs.Stat, n uint64) {
	if n > e.Size {
		s.Ledger.Objects.Grew.Add(1)
	}
	e.Set(after)
	e.Size = n
}

// expected returns how many bytes to read of a small file. Files of a pseudo file system do not know their size.
func expected(d *Dir, st *status) uint64 {
	if d.FS.Pseudo {
		return SmallFile
	}
	return st.Size
}
