package corpus

import (
	"context"
	"path/filepath"
	"sync/atomic"
)

const (
	tinyFolders = 40_420
	tinyFiles   = 1_000_000
	tinyLargest = 4096 // bytes
	// tinyEmpty and tinyCopies are how many files of a thousand are empty, and how many are copies of another one.
	tinyEmpty, tinyCopies = 25, 330
	// tinyChange is how many files of a thousand have other content in the next version.
	tinyChange = 10
)

// tiny makes a million files of 0 to 4 KiB. The content of a file depends only on its number.
type tiny struct {
	seed   uint64
	writer *writer
	layout layout
	files  int
}

func newTiny(seed uint64, scale float64) *tiny {
	t := &tiny{seed: seed, writer: newWriter(), files: scaled(tinyFiles, scale)}
	t.layout = newLayout(seed, t.writer, scaled(tinyFolders, scale), t.files)
	return t
}

// original returns the file that a file is a copy of, or the file itself.
func (t *tiny) original(file int) int {
	for file > 0 {
		d := throw(t.seed, 1, uint64(file))
		if d.below(1000) >= tinyCopies {
			break
		}
		// Half of the copies are of a nearby file, as in versions of one project; the others of any earlier one.
		if near := 1 + d.below(min(file, 2000)); d.below(2) == 0 {
			file -= near
		} else {
			file = d.below(file)
		}
	}
	return file
}

// size returns how many bytes a file has: the square of an even distribution, so that small ones are more frequent, and
// 1365 bytes on average.
func (t *tiny) size(d *dice) int64 {
	if d.below(1000) < tinyEmpty {
		return 0
	}
	x := int64(d.below(1 << 16))
	return x * x * tinyLargest >> 32
}

// project returns the project of a file.
func (t *tiny) project(file int) uint64 {
	low, high := 0, len(t.layout)
	for high-low > 1 {
		if mid := (low + high) / 2; t.layout[mid].first <= file {
			low = mid
		} else {
			high = mid
		}
	}
	return t.layout[low].project
}

func (t *tiny) write(ctx context.Context, root string) error {
	paths := t.layout.paths(root)
	if err := t.layout.make(paths); err != nil {
		return err
	}
	return t.layout.each(ctx, t.writer, func(h *hand, i int) error {
		for k := range t.layout[i].files {
			if _, err := t.file(h, paths[i], i, k, t.original(t.layout[i].first+k), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// file writes the k-th file of a folder with the content that belongs to a number and a version, and returns its size.
func (t *tiny) file(h *hand, dir string, folder, k, content, version int) (int64, error) {
	named := throw(t.seed, 2, uint64(t.layout[folder].first+k))
	path := filepath.Join(dir, t.writer.name(&named, k, textEnding(&named)))
	d := throw(t.seed, 3, uint64(content), uint64(version))
	size := t.size(&d)
	return size, h.write(path, size, func(p []byte, _, n int) []byte {
		return h.voice(t.project(content)).text(p, d, n)
	})
}

func (t *tiny) next(ctx context.Context, root string, version int) (Change, error) {
	var changed, bytes atomic.Int64
	paths := t.layout.paths(root)
	err := t.layout.each(ctx, t.writer, func(h *hand, i int) error {
		for k := range t.layout[i].files {
			file := t.layout[i].first + k
			if d := throw(t.seed, 4, uint64(file), uint64(version)); d.below(1000) >= tinyChange {
				continue
			}
			n, err := t.file(h, paths[i], i, k, file, version)
			if err != nil {
				return err
			}
			changed.Add(1)
			bytes.Add(n)
		}
		return nil
	})
	return Change{Changed: changed.Load(), Bytes: bytes.Load()}, err
}
