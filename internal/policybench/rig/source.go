package rig

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Source makes files that are backed up.
type Source struct {
	random *rand.ChaCha8
	buffer []byte
}

// Filler returns something that makes files, the same for the same seed.
func Filler(seed uint64) *Source {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &Source{rand.NewChaCha8(key), make([]byte, 1<<20)}
}

// Tree makes files of size bytes in all below root: three fifths in large files, three tenths in middling, the rest in
// small ones.
func (s *Source) Tree(ctx context.Context, root string, size int64) error {
	for _, kind := range []struct {
		name string
		each int64
		all  int64
	}{
		{"large", 48 << 20, size * 6 / 10}, {"middling", 600 << 10, size * 3 / 10}, {"small", 9 << 10, size / 10},
	} {
		if err := s.Files(ctx, filepath.Join(root, kind.name), int(kind.all/kind.each)+1, kind.each); err != nil {
			return err
		}
	}
	return nil
}

// Files makes n files of some size each, a hundred in a directory.
func (s *Source) Files(ctx context.Context, root string, n int, size int64) error {
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := filepath.Join(root, fmt.Sprintf("%04d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := s.File(filepath.Join(dir, fmt.Sprintf("%02d", i%100)), size); err != nil {
			return err
		}
	}
	return nil
}

// File makes one whose content nobody has and that compresses by a third.
func (s *Source) File(path string, size int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for size > 0 {
		piece := s.buffer[:min(size, int64(len(s.buffer)))]
		if _, err := s.random.Read(piece); err != nil {
			return err
		}
		for at := 0; at+4096 <= len(piece); at += 4096 {
			clear(piece[at : at+1400])
		}
		if _, err := f.Write(piece); err != nil {
			return err
		}
		size -= int64(len(piece))
	}
	return nil
}
