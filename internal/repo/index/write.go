package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo/cachefile"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// content is what a run is written from.
type content struct {
	most     uint64                                // blobs at most, for the size of the filter
	next     func(*record) (ok bool, err error)    // by ascending ID
	packs    uint32                                // number of packs
	pack     func(from uint32) ([]PackInfo, error) // some packs from a number on
	segments map[format.ID]int64
}

// write writes a run into folder dir: under a temporary name if it is to be kept, and else without a name.
func (c *content) write(dir string, repo [16]byte, io localfs.IOContext, keep bool) (f *cachefile.Plain, err error) {
	f, err = cachefile.Create(dir, tempPrefix, io)
	if err != nil {
		return nil, err
	}
	if !keep {
		_ = os.Remove(f.Path())
	}
	h := head{Magic: [16]byte([]byte(magic)), Repo: repo, Packs: c.packs, Segments: uint32(len(c.segments)),
		Seed: cachefile.Seed()}
	w := cachefile.NewPageWriter(f, 0, h.Seed, 1)
	if err = c.put(w, &h); err == nil {
		err = w.Flush()
	}
	if err != nil {
		return f, err
	}
	w = cachefile.NewPageWriter(f, 0, 0, 0)
	entry, err := binary.Append(nil, binary.BigEndian, &h)
	w.Add(entry)
	return f, errors.Join(err, w.Flush())
}

// put writes the sections of a run, and sets in the head what is known then only.
func (c *content) put(w *cachefile.PageWriter, h *head) error {
	for n := uint32(0); n < c.packs; {
		some, err := c.pack(n)
		if err != nil {
			return err
		}
		for i := range some {
			w.Add(appendPack(nil, &some[i]))
		}
		n += uint32(len(some))
	}
	w.End()
	filter := newFilter(c.most)
	h.Filter = uint32(len(filter) / filterBlock)
	var firsts []byte // 8 bytes for each page of blobs
	var r record
	entry := make([]byte, 0, blobSize)
	for w.Err == nil {
		ok, err := c.next(&r)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if entry = appendLoc(append(entry[:0], r.id[:]...), &r); w.Add(entry) {
			firsts = append(firsts, r.id[:8]...)
		}
		filter.add(&r.id)
		h.Blobs++
	}
	w.End()
	w.AddAll(firsts, 8)
	w.AddAll(filter, filterBlock)
	for _, id := range slices.SortedFunc(maps.Keys(c.segments), format.ID.Compare) {
		w.Add(binary.BigEndian.AppendUint64(id[:], uint64(c.segments[id])))
	}
	return w.Err
}

// damagedRun is the error of a run that cannot be read.
type damagedRun struct {
	run *run
	err error
}

func (d *damagedRun) Error() string {
	return fmt.Sprintf("%s: %v", filepath.Base(d.run.file.Path()), d.err)
}
func (d *damagedRun) Unwrap() error { return d.err }

// merged returns the content of several runs, from the oldest to the newest. Errors of reading are *damagedRun.
func merged(runs []*run) (*content, error) {
	c := &content{segments: make(map[format.ID]int64)}
	var heads []*runCursor
	for _, r := range runs {
		maps.Copy(c.segments, r.merged)
		heads = append(heads, &runCursor{run: r, base: c.packs})
		c.most += r.Blobs
		c.packs += r.Packs
	}
	c.pack = func(from uint32) ([]PackInfo, error) {
		at := len(heads) - 1
		for heads[at].base > from || heads[at].run.Packs == 0 {
			at--
		}
		return heads[at].run.packsAt(from - heads[at].base)
	}
	for _, h := range heads {
		if err := h.next(); err != nil {
			return nil, err
		}
	}
	c.next = func(out *record) (bool, error) { return nextOf(heads, out) }
	return c, nil
}

// nextOf returns the record of the lowest ID. Of equal IDs the newest counts, which is the last.
func nextOf(heads []*runCursor, out *record) (bool, error) {
	best := -1
	for i, r := range heads {
		if r.ok && (best < 0 || r.id.Compare(heads[best].id) <= 0) {
			best = i
		}
	}
	if best < 0 {
		return false, nil
	}
	*out = heads[best].record
	for _, r := range heads {
		if r.ok && r.id == out.id {
			if err := r.next(); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// runCursor reads a run sequentially.
type runCursor struct {
	run  *run
	base uint32 // added to the numbers of packs
	page cachefile.Page
	n    uint64 // records read
	record
	ok bool // record is set
}

func (r *runCursor) next() error {
	if r.ok = r.n < r.run.Blobs; !r.ok {
		return nil
	}
	entry, err := r.run.Entry(&r.page, &r.run.blobs, r.n)
	if err != nil {
		return r.run.damaged("read run", err)
	}
	r.id = format.ID(entry[:format.IDSize])
	r.loc, r.number = parseLoc(entry[format.IDSize:])
	r.number += r.base
	r.n++
	return nil
}
