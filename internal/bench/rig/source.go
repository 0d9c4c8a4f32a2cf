package rig

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Source makes files that are backed up.
type Source struct {
	random *rand.ChaCha8
	buffer []byte
	words  [][]byte // of text
}

// Filler returns something that makes files, the same for the same seed.
func Filler(seed uint64) *Source {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return &Source{random: rand.NewChaCha8(key), buffer: make([]byte, 1<<20)}
}

// Code makes a tree like one of source code: n files of size bytes in all, a dozen in a directory, with the sizes of a
// log-normal distribution and a text that compresses well.
func (s *Source) Code(ctx context.Context, root string, n int, size int64) error {
	const sigma = 1.2 // the mean of such a distribution is its median times exp(sigma*sigma/2)
	random := rand.New(s.random)
	median := float64(size) / float64(n) / math.Exp(sigma*sigma/2)
	for i := range n {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		dir := filepath.Join(root, fmt.Sprintf("m%02d", i/1200), fmt.Sprintf("package%03d", i/12%100))
		if i%12 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		length := min(2<<20, int(median*math.Exp(sigma*random.NormFloat64())))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%02d.go", i%12)), s.text(length), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// text returns words, few of them frequent and many rare, valid until the next call.
func (s *Source) text(length int) []byte {
	if len(s.words) == 0 {
		for range 1 << 12 {
			word := make([]byte, 2+s.random.Uint64()%9)
			for i := range word {
				word[i] = "etaoinshrdlucmfwypvbgkjqxz_."[s.random.Uint64()%28]
			}
			word = append(word, " \n\t("[s.random.Uint64()%4]) //nolint:makezero // the end of the word
			s.words = append(s.words, word)
		}
	}
	out := s.buffer[:0]
	for len(out) < length {
		for draw, i := s.random.Uint64(), 0; i < 4; i++ {
			few := draw & 0xf // of sixteen words, one has this many bits of choice fewer
			out = append(out, s.words[draw>>4&(0xfff>>(few%8))]...)
			draw >>= 16
		}
	}
	return out[:length]
}

// Change gives every tenth file of a tree made by Code another content, in a file that takes its place.
func (s *Source) Change(root string) error {
	i := 0
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		if i++; i%10 != 0 {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+".new", s.text(int(info.Size())), 0o644); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	})
}

// File makes a file with unique content that compresses by a third.
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
