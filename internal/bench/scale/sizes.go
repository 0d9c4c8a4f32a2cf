package scale

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// extents is what lies in repository and cache, in bytes.
type extents struct {
	Data   int64 `json:"data"`   // frames of contents
	Tables int64 `json:"tables"` // headers and trailers of the packs of contents
	Trees  int64 `json:"trees"`  // packs of trees as a whole; the contents of the smallest files are in them
	Index  int64 `json:"index"`
	Other  int64 `json:"other"` // config, keys, snapshots, leases
	Cache  int64 `json:"cache"`
}

// metadata is all but contents.
func (e extents) metadata() int64 { return e.Tables + e.Trees + e.Index + e.Other }

// measureExtents measures the files of a repository and of its local cache.
func measureExtents(repo, cache string) (e extents, err error) {
	err = eachFile(repo, func(path, top string, size int64) error {
		switch top {
		case "packs":
			frames, err := framesOf(path, size)
			if err != nil {
				return fmt.Errorf("look at pack: %w", err)
			}
			e.Data += frames
			e.Tables += size - frames
		case "trees":
			e.Trees += size
		case "index":
			e.Index += size
		default:
			e.Other += size
		}
		return nil
	})
	if err == nil {
		err = eachFile(cache, func(_, _ string, size int64) error { e.Cache += size; return nil })
	}
	return e, err
}

func eachFile(root string, yield func(path, top string, size int64) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		top, _, _ := strings.Cut(rel, string(filepath.Separator))
		return yield(path, top, info.Size())
	})
}

// framesOf returns the bytes of the frames of a pack, from its footer, which has the start of the trailer.
func framesOf(path string, size int64) (frames int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var footer [pack.FooterSize]byte
	if _, err := f.ReadAt(footer[:], size-pack.FooterSize); err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(footer[:])) - pack.HeaderSize, nil
}
