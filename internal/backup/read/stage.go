// Package read reads the new and changed objects of directories: it opens files, reads them in portions or piece by
// piece, notices changes while it reads, and reads a file with several names once.
package read

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Options set how files are read.
type Options struct {
	Serialization options.Serialization
	Retries       int  // attempts after the first on a file that changes
	AccessTime    bool // store access times
	Singly        bool // one small file after the other, rather than those of a directory together
	Order         Order
}

// Flow connects the stage with the ones around it.
type Flow interface {
	Queue(ctx context.Context, b *Portion) error // for a Reader
	Send(ctx context.Context, p *Piece) error    // what a Reader has read, to be stored
	NewChunks() Chunks                           // for the content of a large file
}

// Chunks collects the chunks of a large file, whose parts are stored in any order.
type Chunks interface {
	Deliver(seq int, chunks []tree.Chunk) (whole bool, err error)
	Complete(parts int) (whole bool)
	Content() (tree.Content, error)
}

// Parts counts the parts of a directory that are under way: portions, pieces, and names that wait for another name.
type Parts interface {
	Begin()
	Stored(entry uint32) // its result is complete, and its content is stored
	End(ctx context.Context) error
}

// Config is what the stage works with.
type Config struct {
	Options    Options
	Rotational func(*iopolicy.Pass) bool // nil: no device is
	Ledger     *report.Ledger
	Cutter     *chunker.Chunker
	Flow       Flow
	Memory     Memory
}

// Memory bounds what the readers hold at a time.
type Memory struct {
	Buffers *Buffers            // for file data on its way to the next stage
	Scratch *Buffers            // one for each reader, used while a gate limits the size of reads
	Open    *semaphore.Weighted // files that readers have open beside the first one each
}

// Stage is the readers' common part. It is safe for concurrent use.
type Stage struct {
	Config
	links links
}

// New returns a Stage.
func New(cfg Config) *Stage { return &Stage{Config: cfg} }

// Dir is a directory with objects to be read.
type Dir struct {
	*scan.Directory
	Results []Result // of each entry
	Scanned time.Time
	Parts   Parts
}

// Result is what reading an entry gave. A directory of new files has one for each, so rare fields are behind a pointer.
type Result struct {
	Chunks  []tree.Chunk
	Inline  []byte
	Extra   *Extra
	Outcome tree.Outcome
	Gone    bool // vanished or was replaced between scan and read: left out
}

// Extra is what most objects do not have.
type Extra struct {
	Xattrs []tree.Xattr
	Flags  uint64
	Target string
	Device uint64
	Access *tree.Time
	List   format.ID // of chunks, when they are too many for the node
	link   *linked   // set in the entry that reads for all names of its file

	// Recheck marks the node to be read again by the next backup: some of its attributes or flags are missing, or its
	// content can change without a new change time (localfs.File.Dirty).
	Recheck bool
}

func (r *Result) extra() *Extra {
	if r.Extra == nil {
		r.Extra = &Extra{}
	}
	return r.Extra
}

// path returns the path of an entry inside the snapshot.
func (d *Dir) path(i uint32) string { return d.Join(d.Entries[i].Name) }

// fail records what could not be done with an object. A call that was not made because the run was cancelled says
// nothing about the object; such a run ends without a snapshot.
func (s *Stage) fail(path, op string, err error) {
	if !errors.Is(err, localfs.ErrStopped) {
		s.Ledger.Fail(path, op, err)
	}
}

// unreadable records that entry i is stored without its content.
func (s *Stage) unreadable(d *Dir, i uint32, op string, err error) {
	d.Results[i].Outcome = tree.Unreadable
	s.fail(d.path(i), op, err)
}
