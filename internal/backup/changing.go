package backup

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/localfs"
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

// verdict is what becomes of one attempt to read a file.
type verdict uint8

const (
	good  verdict = iota // nothing changed
	fuzzy                // changed, stored all the same
	again                // changed, try once more
	give                 // changed, no content stored
)

// judge compares a file before and after attempt number try, which read n bytes.
func (p *pipeline) judge(before, after *localfs.Stat, n uint64, try int) verdict {
	if before.Size == after.Size && n == after.Size && before.Mtime == after.Mtime && before.Ctime == after.Ctime {
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
