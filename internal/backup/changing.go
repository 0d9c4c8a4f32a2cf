package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/signature"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Serialization is what to do about a file that changes while it is read (copy serialization).
type Serialization uint8

// The serializations.
const (
	SharedDynamic Serialization = iota // try again, store the last attempt whatever happens
	SharedStatic                       // try again, then store no content
	Dynamic                            // store the first attempt
	Static                             // store no content of a file that changes
)

// String returns the name used on the command line.
func (s Serialization) String() string {
	switch s {
	case SharedDynamic:
		return "shared-dynamic"
	case SharedStatic:
		return "shared-static"
	case Dynamic:
		return "dynamic"
	case Static:
		return "static"
	}
	return fmt.Sprintf("serialization %d", uint8(s))
}

// ParseSerialization reads the names that String writes.
func ParseSerialization(name string) (Serialization, error) {
	for _, s := range []Serialization{SharedDynamic, SharedStatic, Dynamic, Static} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("copy serialization %q: choose shared-dynamic, shared-static, dynamic or static", name)
}

// repeats reports whether a file that changes while it is read is read again.
func (r Reading) repeats() bool {
	return r.Retries > 0 && (r.Serialization == SharedDynamic || r.Serialization == SharedStatic)
}

// verdict is what becomes of one attempt to read a file.
type verdict uint8

const (
	good  verdict = iota // nothing changed
	fuzzy                // changed, stored all the same
	again                // changed, try once more
	give                 // changed, no content stored
)

// attemptAt is what is known of a file before an attempt to read it.
type attemptAt struct {
	localfs.Stat
	moving bool // it changed so recently that a further change may leave no trace
}

// before looks at an open file before attempt number try. A file that was written in the same tick of the kernel's clock
// could be written again, while it is read, without a new time; so that tick is let pass. Clocks are only asked whether
// waiting is needed: afterwards it is the unchanged time that counts, as the file may carry the time of a server's clock.
func (p *pipeline) before(ctx context.Context, f *localfs.File, j *job, i uint32, try int) (at attemptAt, err error) {
	if at.Stat = *f.Opened(); try > 0 {
		if at.Stat, err = f.Stat(); err != nil {
			return at, err
		}
	}
	if signature.Settled(at.Ctime, signature.Moment(time.Now())) {
		return at, nil
	}
	if try == 0 && f.Presumed() { // what was known of it is too old to wait by
		if at.Stat, err = f.Stat(); err != nil {
			return at, err
		}
	}
	wait := signature.Tick
	if at.Ctime == j.dir.Entries[i].Changed() {
		wait -= time.Since(j.scanned) // it has had this time before it was scanned
	}
	if wait <= 0 {
		return at, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return at, context.Cause(ctx)
	}
	st, err := f.Stat()
	at.Stat, at.moving = st, st.Ctime != at.Ctime
	return at, err
}

// judge compares a file before and after attempt number try, which read n bytes.
func (p *pipeline) judge(before *attemptAt, after *localfs.Stat, n uint64, try int) verdict {
	if !before.moving && before.Size == after.Size && n == after.Size && before.Mtime == after.Mtime && before.Ctime == after.Ctime {
		return good
	}
	left := try < p.src.Reading.Retries
	switch p.src.Reading.Serialization {
	case Static:
		return give
	case Dynamic:
		return fuzzy
	case SharedStatic:
		if left {
			return again
		}
		return give
	default:
		if left {
			return again
		}
		return fuzzy
	}
}

// conclude books the outcome of a file whose last attempt was number try.
func (p *pipeline) conclude(j *job, i uint32, v verdict, try int) {
	r, path := &j.results[i], j.dir.Entries[i].Name
	switch {
	case v == fuzzy:
		r.outcome = tree.Dynamic
		p.Ledger.Objects.Changing.Add(1)
		p.Ledger.Note(j.dir.Join(path), "read", errCaught)
	case v == give:
		r.outcome = tree.Skipped
		p.Ledger.Objects.Changing.Add(1)
		p.Ledger.Fail(j.dir.Join(path), "read", fmt.Errorf("%w %d times; its content is not stored (copy serialization %s)",
			ErrChanging, try+1, p.src.Reading.Serialization))
	case try > 0:
		r.outcome = tree.Retried
	default:
		r.outcome = tree.Static
	}
}

// measured takes over what a file is after n bytes of it were read, which may be more than when it was scanned.
func (p *pipeline) measured(e *scan.Entry, after *localfs.Stat, n uint64) {
	if n > e.Size {
		p.Ledger.Objects.Grew.Add(1)
	}
	e.Set(after)
	e.Size = n
}

// expected returns how many bytes are to be read of a small file. Those of a pseudo file system do not know their size.
func expected(j *job, st *attemptAt) uint64 {
	if j.dir.FS.Pseudo {
		return smallFile
	}
	return st.Size
}
