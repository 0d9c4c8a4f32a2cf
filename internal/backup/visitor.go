package backup

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/read"
	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
)

// The walk calls these methods of the pipeline on its goroutines: they have each directory compared, and queue what
// must be read.

// Entry records an object whose status could not be read.
func (p *pipeline) Entry(d *scan.Directory, name string, err error) {
	if d.Picked { // a source, or a directory on the path to one
		if at := p.placeOf(d).at(name); at != nil {
			at.fail(err)
			return
		}
	}
	p.deps.ledger.Fail(d.Join(name), "look at", err)
}

// placeOf returns the place of a directory on the path to sources.
func (p *pipeline) placeOf(d *scan.Directory) *place {
	if d.Parent == nil {
		return p.places
	}
	return p.placeOf(d.Parent).at(d.Name)
}

// Excluded counts what the rules excluded.
func (p *pipeline) Excluded(_ *scan.Directory, n int) {
	p.deps.ledger.Objects.Excluded.Add(uint64(n))
}

// Lookup returns the names that the directory cache has of d.
func (p *pipeline) Lookup(d *scan.Directory, room []byte) (names, larger []byte) {
	return p.compare.Lookup(&p.newDirWork(d).compared, room)
}

// Unchanged reports whether the entries of d are those of its entry in the directory cache.
func (p *pipeline) Unchanged(d *scan.Directory) bool {
	return p.compare.Unchanged(&d.User.(*dirWork).compared)
}

// Refresh reports whether names of unchanged directories are to be stored.
func (p *pipeline) Refresh() bool { return p.deps.cache.StoresNames() }

// Directory compares one scanned directory with the parent snapshot and queues what must be read.
func (p *pipeline) Directory(ctx context.Context, d *scan.Directory, clock *report.Clock) error {
	defer clock.Enter(clock.Enter(report.Compare))
	j, ok := d.User.(*dirWork)
	if !ok {
		j = p.newDirWork(d)
	}
	if d.Parent != nil {
		j.parent = d.Parent.User.(*dirWork)
		j.compared.Parent = &j.parent.compared
		j.place = j.parent.place.at(d.Name)
	} else {
		p.root, j.place = j, p.places
	}
	if n := len(d.Subdirs); n > 0 {
		j.children = make([]child, n)
	}
	p.sources.Add(int64(d.Sources))
	j.pending.Store(int32(1 + len(d.Subdirs)))
	j.compared.Incomplete = d.Missed > 0 && !d.Picked // each missing entry is recorded
	if d.Err != nil {
		p.notListed(j)
	}
	p.owners.addEntries(d.Entries)
	scanned := time.Now()
	if err := p.compare.Compare(ctx, &j.compared); err != nil {
		return err
	}
	p.readSelf(j)
	if !j.compared.Clean {
		j.reading = read.Dir{Directory: d, Results: make([]read.Result, len(d.Entries)), Scanned: scanned, Parts: j}
	}
	p.begun(j)
	if !j.compared.Clean {
		clock.Enter(report.WaitRead)
		if err := p.queueAll(ctx, j); err != nil {
			return err
		}
	}
	clock.Enter(report.Encode)
	return j.End(ctx)
}

// queueAll queues what is to be read of a directory. The portions of a directory stay together, because files of one
// directory resemble each other and compress better in one frame.
func (p *pipeline) queueAll(ctx context.Context, j *dirWork) error {
	p.queueing.Lock()
	defer p.queueing.Unlock()
	return p.read.Queue(ctx, &j.reading, j.compared.ToRead())
}

// notListed records a directory that could not be opened or read to its end. As with files, a missing one is no
// failure, unless it is a source.
func (p *pipeline) notListed(j *dirWork) {
	d := j.dir
	below := d.Parent != nil && !d.Parent.Picked
	switch {
	case below && errors.Is(d.Err, localfs.ErrVanished):
		j.gone = true
		p.deps.ledger.Note(d.Path(), "list directory", read.ErrVanished)
	case below && errors.Is(d.Err, localfs.ErrNotDir):
		j.gone = true
		p.deps.ledger.Note(d.Path(), "list directory", read.ErrReplaced)
	default:
		j.compared.Incomplete = true
		j.held.failed++
		if j.place != nil && j.place.source && len(d.Entries) == 0 {
			j.place.err = d.Err
			return
		}
		p.deps.ledger.Fail(d.Path(), "list directory", d.Err)
	}
}

// readSelf reads the attributes of a new or changed directory, which its entry in the parent does not contain.
func (p *pipeline) readSelf(j *dirWork) {
	if j.gone || j.parent == nil || j.parent.compared.States == nil || j.parent.compared.Reuses(j.dir.Index) {
		return
	}
	p.read.Self(&j.self, j.dir, j.compared.Incomplete)
}
