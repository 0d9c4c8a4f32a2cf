package backup

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

const (
	// countDelay is how long a backup runs before it counts: a short one needs no estimate.
	countDelay = 4 * time.Second
	// countInterval is the time between two reports of a count.
	countInterval = 250 * time.Millisecond
	// countRate is how many objects a count takes in a second for each processor. An object costs some 2.5 µs, so that is
	// 2 % of the processors.
	countRate = 8000
)

// counter counts objects and bytes for the estimate of a first backup, which has no snapshot to take them from. The
// scan of the backup is no help: it waits for the readers.
//
// One worker walks the sources with the same rules and gates. It reads what the scan reads later, which is then in the
// kernel's caches. Its failures are those of the scan, so it reports none.
type counter struct {
	objects, bytes atomic.Uint64
	rate, due      int // objects a second; objects since the last pause
}

// Directory adds the entries of a directory.
func (c *counter) Directory(ctx context.Context, d *scan.Directory, _ *report.Clock) error {
	var bytes uint64
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Type == tree.File {
			bytes += e.Size
		}
	}
	c.objects.Add(uint64(len(d.Entries)))
	if len(d.Subdirs) == 0 {
		defer d.Recycle()
	}
	c.bytes.Add(bytes)
	if c.due += 1 + len(d.Entries); c.due < c.rate/100 {
		return nil
	}
	pause := time.Duration(c.due) * time.Second / time.Duration(c.rate)
	c.due = 0
	return store.Sleep(ctx, pause)
}

// Entry does nothing.
func (c *counter) Entry(*scan.Directory, string, error) {}

// Excluded does nothing.
func (c *counter) Excluded(*scan.Directory, int) {}

// count counts the sources until it has all of them, or until ctx ends because the scan does. Its ledger keeps what it
// does out of the report.
func (p *pipeline) count(ctx context.Context) {
	if store.Sleep(ctx, countDelay) != nil {
		return
	}
	c := counter{rate: max(1, int(countRate*p.par.Processors))}
	ledger := p.deps.ledger
	counted := make(chan error, 1)
	go func() {
		counted <- scan.Walk(ctx, p.src.Root, p.src.scan(1, report.New(time.Now)), &c)
	}()
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-counted:
			if err == nil {
				ledger.Expect(report.Expected{Objects: c.objects.Load(), Bytes: c.bytes.Load()})
			}
			return
		case <-tick.C:
			ledger.Expect(report.Expected{Objects: c.objects.Load(), Bytes: c.bytes.Load(), Growing: true})
		}
	}
}
