package check

import (
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/proofs"
)

// saveEvery is how often the record is written while data is read. A killed check loses what it proved since.
const saveEvery = time.Minute

// provenPacks is the record of a running check. A nil one records nothing.
type provenPacks struct {
	mu     sync.Mutex // also guards the proofs of all packs
	record *proofs.Record
	saved  time.Time
}

// loadProven reads the record of earlier checks and takes the next number. Packs that are not in the record get that
// number.
func (c *checker) loadProven() {
	if c.opt.Proofs == "" {
		return
	}
	record, err := proofs.Read(c.opt.Proofs)
	if err != nil {
		c.found.Note("%v", err)
	}
	record.Turn++
	for i := range c.packs {
		f := &c.packs[i]
		f.turn = record.Turn
		if e, ok := record.Find(f.id); ok {
			f.proven, f.turn = e.At, e.Turn
		}
	}
	c.proven = &provenPacks{record: record, saved: time.Now()}
}

// note records the outcome of reading a pack.
func (p *provenPacks) note(c *checker, f *packFile, whole bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.proven, f.turn = 0, p.record.Turn
	if whole {
		f.proven = uint32(time.Now().Unix())
	}
	if time.Since(p.saved) > saveEvery {
		p.write(c)
	}
}

// save writes the record, also when the check failed.
func (p *provenPacks) save(c *checker) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(c)
	c.found.Count(func(r *Result) { r.Proven = p.record.Summary })
}

func (p *provenPacks) write(c *checker) {
	p.saved = time.Now()
	p.record.Entries = p.record.Entries[:0]
	for i := range c.packs {
		f := &c.packs[i]
		p.record.Entries = append(p.record.Entries, proofs.Entry{ID: f.id, At: f.proven, Turn: f.turn})
	}
	p.record.Checked = p.saved
	p.record.Sum()
	if err := p.record.Write(c.opt.Proofs); err != nil {
		c.found.Note("what was proven is not recorded: %v", err)
	}
}
