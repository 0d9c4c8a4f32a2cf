package check

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/proofs"
)

// saveEvery is how often the record is written while data is read. A killed check loses what it proved since.
const saveEvery = time.Minute

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
	c.proven, c.saved = record, time.Now()
}

// noteProof records the outcome of reading a pack.
func (c *checker) noteProof(f *packFile, whole bool) {
	if c.proven == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.proven, f.turn = 0, c.proven.Turn
	if whole {
		f.proven = uint32(time.Now().Unix())
	}
	if time.Since(c.saved) > saveEvery {
		c.writeProofs()
	}
}

// saveProofs writes the record, also when the check failed.
func (c *checker) saveProofs() {
	if c.proven == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeProofs()
	c.found.Count(func(r *Result) { r.Proven = c.proven.Summary })
}

func (c *checker) writeProofs() {
	c.saved = time.Now()
	c.proven.Entries = c.proven.Entries[:0]
	for i := range c.packs {
		f := &c.packs[i]
		c.proven.Entries = append(c.proven.Entries, proofs.Entry{ID: f.id, At: f.proven, Turn: f.turn})
	}
	c.proven.Checked = c.saved
	c.proven.Sum()
	if err := c.proven.Write(c.opt.Proofs); err != nil {
		c.found.Note("what was proven is not recorded: %v", err)
	}
}
