// This file makes the tree of tidemark-bench scale from a seed: always the same names, contents and times,
// regardless of the number of goroutines.
//
// Directories form a tree in which each has up to eight below it, filled level by level. A fifth of them hold no file,
// most up to eleven, a few hundreds: eleven on average. A quarter of the files are empty, seven tenths have up to 60
// bytes, one in twenty up to 4 KiB, and 35 % of the non-empty ones share their content with many others. Files in half
// of the directories have times of whole seconds from years ago, like unpacked ones; a quarter carry times to the
// nanosecond; the rest keep the time of their creation.

package scale

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// fanOut is how many directories one holds at most: 2.5 million are seven levels deep.
	fanOut = 8
	// pool is how many contents the duplicates share.
	pool = 4096
	// tiny is the largest of the small contents: an inode of 256 bytes holds it.
	tiny = 60
	// largest content.
	largest = 4096
)

// Shape is the size of a tree.
type Shape struct {
	Files int
	Seed  uint64
}

// Made counts the objects of a tree.
type Made struct {
	Files   uint64  `json:"files"`
	Dirs    uint64  `json:"dirs"` // the root included
	Bytes   uint64  `json:"bytes"`
	Small   uint64  `json:"small_bytes"` // in files of up to 60 bytes
	Seconds float64 `json:"seconds"`
}

// Objects returns the number of files and directories.
func (m Made) Objects() uint64 { return m.Files + m.Dirs }

// unit is one directory with its files.
type unit struct {
	index int
	path  string
	files int
}

// Make makes the tree at root, which must not exist.
func (s Shape) Make(ctx context.Context, root string) (Made, error) {
	start := time.Now()
	var made struct{ files, bytes, small atomic.Uint64 }
	dirs := uint64(0)
	job, ctx := errgroup.WithContext(ctx)
	units := make(chan unit, 256)
	job.Go(func() error {
		defer close(units)
		return s.units(root, func(u unit) error {
			if err := os.Mkdir(u.path, 0o755); err != nil {
				return err
			}
			dirs++
			select {
			case units <- u:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	for range 2 * runtime.GOMAXPROCS(0) {
		job.Go(func() error {
			var buf [largest]byte
			for u := range units {
				for i := range u.files {
					f := s.file(u.index, i)
					data := f.fill(buf[:])
					if err := f.write(filepath.Join(u.path, f.name), data); err != nil {
						return err
					}
					made.files.Add(1)
					made.bytes.Add(uint64(f.size))
					if f.size <= tiny {
						made.small.Add(uint64(f.size))
					}
				}
			}
			return nil
		})
	}
	err := job.Wait()
	return Made{
		Files: made.files.Load(), Dirs: dirs, Bytes: made.bytes.Load(), Small: made.small.Load(),
		Seconds: time.Since(start).Seconds(),
	}, err
}

// Change rewrites one file in so many, with other contents of another length, and returns their number.
func (s Shape) Change(ctx context.Context, root string, oneIn int) (changed int, err error) {
	var buf [largest]byte
	err = s.units(root, func(u unit) error {
		for i := range u.files {
			if mix(s.Seed, 4, u.index, i)%uint64(oneIn) != 0 {
				continue
			}
			f := s.file(u.index, i)
			f.size, f.content = f.size%tiny+1, ^f.content
			if err := os.WriteFile(filepath.Join(u.path, f.name), f.fill(buf[:]), 0o644); err != nil {
				return err
			}
			changed++
		}
		return context.Cause(ctx)
	})
	return changed, err
}

// Sample returns a directory below the root with about so many files in it and below, relative to the root.
func (s Shape) Sample(files int) string {
	share, path, index := float64(s.Files), "", 0
	for share/fanOut >= float64(files) {
		index = index*fanOut + 1
		path = filepath.Join(path, s.dirName(index))
		share /= fanOut
	}
	return path
}

// units yields the directories with the number of their files, parents first.
func (s Shape) units(root string, yield func(unit) error) error {
	for i, left := 0, s.Files; left > 0 || i == 0; i++ {
		n := min(left, s.count(i))
		if err := yield(unit{i, filepath.Join(root, s.path(i)), n}); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// count returns how many files a directory has: 11.1 on average.
func (s Shape) count(dir int) int {
	h := mix(s.Seed, 1, dir, 0)
	spread := int(h >> 32)
	switch kind := h % 1000; {
	case kind < 200:
		return 0
	case kind < 800:
		return 1 + spread%11 // 6 on average
	case kind < 985:
		return 12 + spread%31 // 27
	default:
		return 43 + spread%270 // 177
	}
}

// path returns where a directory lies below the root.
func (s Shape) path(dir int) string {
	path := ""
	for ; dir > 0; dir = (dir - 1) / fanOut {
		path = filepath.Join(s.dirName(dir), path)
	}
	return path
}

func (s Shape) dirName(dir int) string {
	words := [...]string{"archive", "build", "data", "home", "lib", "mail", "photos", "project", "share", "work"}
	h := mix(s.Seed, 2, dir, 0)
	return fmt.Sprintf("%s-%02x%d", words[h%uint64(len(words))], byte(h>>32), dir%fanOut)
}

// file describes a file before it is made.
type file struct {
	name    string
	size    int
	content uint64     // equal for equal contents
	times   *time.Time // nil: as it comes
}

func (s Shape) file(dir, i int) file {
	words := [...]string{"cache", "chapter", "config", "draft", "entry", "image", "index", "invoice", "letter",
		"log", "message",
		"module", "note", "page", "record", "report", "table", "test", "thumb", "view"}
	kinds := [...]string{"txt", "xml", "json", "h", "py", "tmp", "eml", "cfg", "idx", "lock"}
	rng := rand.New(rand.NewPCG(s.Seed, mix(s.Seed, 3, dir, i)))
	f := file{content: rng.Uint64()}
	f.name = fmt.Sprintf("%s%d-%04x.%s", words[rng.IntN(len(words))], i, rng.IntN(1<<16), kinds[rng.IntN(len(kinds))])
	switch kind := rng.IntN(100); {
	case kind < 25:
	case kind < 95:
		f.size = 1 + rng.IntN(tiny)
	default:
		f.size = int(math.Exp(rng.Float64()*math.Log(largest/tiny)) * tiny)
	}
	if rng.IntN(100) < 35 { // one of the contents that many have, and so its length
		f.content %= pool
		if f.size > 0 {
			f.size = sizeLike(f.size, f.content)
		}
	}
	year := 365 * 24 * time.Hour
	moment := time.Unix(1_700_000_000, 0).Add(-time.Duration(rng.Int64N(int64(10 * year))))
	switch mix(s.Seed, 5, dir, 0) % 4 {
	case 0, 1:
		moment = moment.Truncate(time.Second)
		f.times = &moment
	case 2:
		f.times = &moment
	}
	return f
}

// sizeLike returns a length of the same size class as size that depends only on the content.
func sizeLike(size int, content uint64) int {
	if size <= tiny {
		return 1 + int(content%tiny)
	}
	return tiny + 1 + int(content*31%(largest-tiny))
}

// fill writes the content into buf and returns it. It cannot be compressed.
func (f *file) fill(buf []byte) []byte {
	buf = buf[:f.size]
	src := rand.New(rand.NewPCG(f.content, uint64(f.size)))
	for i := 0; i < len(buf); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], src.Uint64())
		copy(buf[i:], word[:])
	}
	return buf
}

func (f *file) write(path string, data []byte) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		_, err = out.Write(data)
	}
	if err = errors.Join(err, out.Close()); err != nil || f.times == nil {
		return err
	}
	return os.Chtimes(path, *f.times, *f.times)
}

// mix returns a pseudo-random number from its arguments: the finalizer of SplitMix64 over each.
func mix(seed uint64, use, a, b int) uint64 {
	h := seed
	for _, n := range [...]uint64{uint64(use), uint64(a), uint64(b)} {
		h += n + 0x9E3779B97F4A7C15
		h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
		h = (h ^ h>>27) * 0x94D049BB133111EB
		h ^= h >> 31
	}
	return h
}
