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
	"github.com/tidemark-backup/tidemark/internal/repo/extsort"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// content is what a run is written from.
type content struct {
	most     uint64                                // blobs at most, for the size of the filter
	next     extsort.Source                        // of IDs, with what appendLoc appends
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
	entry := make([]byte, 0, blobSize)
	for w.Err == nil {
		id, loc, ok, err := c.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if entry = append(append(entry[:0], id...), loc...); w.Add(entry) {
			firsts = append(firsts, id[:8]...)
		}
		filter.add((*format.ID)(id))
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
	var bases []uint32 // added to the numbers of the packs of each run
	var sources []extsort.Source
	for _, r := range runs {
		maps.Copy(c.segments, r.merged)
		bases, sources = append(bases, c.packs), append(sources, r.source(c.packs))
		c.most += r.Blobs
		c.packs += r.Packs
	}
	c.pack = func(from uint32) ([]PackInfo, error) {
		at := len(runs) - 1
		for bases[at] > from || runs[at].Packs == 0 {
			at--
		}
		return runs[at].packsAt(from - bases[at])
	}
	m, err := extsort.Merge(sources...)
	if err != nil {
		return nil, err
	}
	c.next = m.Next
	return c, nil
}

// source reads the blobs of a run sequentially, and adds base to the numbers of their packs.
func (r *run) source(base uint32) extsort.Source {
	page, n := &cachefile.Page{}, uint64(0)
	var value [locSize]byte
	return func() (_, _ []byte, ok bool, err error) {
		if n == r.Blobs {
			return nil, nil, false, nil
		}
		entry, err := r.Entry(page, &r.blobs, n)
		if err != nil {
			return nil, nil, false, r.damaged("read run", err)
		}
		n++
		loc, number := parseLoc(entry[format.IDSize:])
		return entry[:format.IDSize], appendLoc(value[:0], loc, number+base), true, nil
	}
}
