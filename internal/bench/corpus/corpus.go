package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
)

// The kinds of sets.
const (
	Tiny   = "tiny"
	Mixed  = "mixed"
	Source = "source"
)

// Kinds returns the kinds of sets.
func Kinds() []string { return []string{Source, Tiny, Mixed} }

// Spec identifies a set.
type Spec struct {
	Kind  string   `json:"kind"`
	Seed  uint64   `json:"seed"`
	Scale float64  `json:"scale"`           // how much of it: 1 is the full size, 0.01 a hundredth of the files
	Roots []string `json:"roots,omitempty"` // trees that a source set is copied from; see Roots
}

// Set is a set that lies in a folder.
type Set struct {
	Spec
	Version int   `json:"version"` // 0 is the first
	Objects int64 `json:"objects"` // files, folders and links, the top folder not among them
	Bytes   int64 `json:"bytes"`   // of its files
	Image   int64 `json:"image,omitempty"`
	Whole   bool  `json:"whole"` // false while it is being made or changed

	dir string
}

// Change counts the changes from one version to the next.
type Change struct {
	Changed int64 `json:"changed"` // files with other content
	Added   int64 `json:"added"`
	Deleted int64 `json:"deleted"`
	Renamed int64 `json:"renamed"`
	Bytes   int64 `json:"bytes"` // that were written
}

// maker makes sets of one kind.
type maker interface {
	// write makes version 0 in an empty folder.
	write(ctx context.Context, root string) error
	// next makes the given version out of the one before.
	next(ctx context.Context, root string, version int) (Change, error)
}

// maker returns the maker of the kind, or an error for an invalid Spec.
func (s *Spec) maker() (maker, error) {
	if s.Scale <= 0 || s.Scale > 10 {
		return nil, fmt.Errorf("make a data set at scale %g: give a number above 0 and up to 10", s.Scale)
	}
	switch s.Kind {
	case Tiny:
		return newTiny(s.Seed, s.Scale), nil
	case Mixed:
		return newMixed(s.Seed, s.Scale), nil
	case Source:
		return newSource(s.Seed, s.Scale, s.Roots), nil
	}
	return nil, fmt.Errorf("make a data set: %w: %q; there are %v", ErrKind, s.Kind, Kinds())
}

// Make makes a set in a folder that does not exist yet, or opens the existing one if it matches spec, in any version.
// The data is in the folder Root, beside the record of the set.
func Make(ctx context.Context, dir string, spec Spec) (*Set, error) {
	m, err := spec.maker()
	if err != nil {
		return nil, err
	}
	s := &Set{Spec: spec, dir: dir}
	text, err := os.ReadFile(s.record())
	if err == nil {
		return s.take(text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make a data set: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a data set: %w", err)
	}
	if err := os.Mkdir(s.Root(), 0o755); err != nil {
		return nil, fmt.Errorf("make a data set: %w (remove %s, or name another folder)", err, dir)
	}
	if err := s.save(); err != nil {
		return nil, err
	}
	if err := m.write(ctx, s.Root()); err != nil {
		return nil, fmt.Errorf("make the %s data set: %w", spec.Kind, err)
	}
	if mixed, ok := m.(*mixed); ok {
		s.Image = mixed.image
	}
	return s, s.finish()
}

// take verifies that the record matches the Spec.
func (s *Set) take(text []byte) (*Set, error) {
	want := s.Spec
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.record(), err)
	}
	if !s.Whole || !reflect.DeepEqual(want, s.Spec) {
		return nil, fmt.Errorf("take the data set in %s: %w, or a part of it (%+v): remove it or name another folder",
			s.dir, ErrOther, s.Spec)
	}
	return s, nil
}

// Next makes the next version out of the one that is there.
func (s *Set) Next(ctx context.Context) (Change, error) {
	m, err := s.maker()
	if err != nil {
		return Change{}, err
	}
	s.Whole = false
	s.Version++
	if err := s.save(); err != nil {
		return Change{}, err
	}
	c, err := m.next(ctx, s.Root(), s.Version)
	if err != nil {
		return c, fmt.Errorf("make version %d of the %s data set: %w", s.Version, s.Kind, err)
	}
	return c, s.finish()
}

// Root is the folder that holds only the data.
func (s *Set) Root() string { return filepath.Join(s.dir, "data") }

func (s *Set) record() string { return filepath.Join(s.dir, "record.json") }

// finish counts the objects and writes the record.
func (s *Set) finish() error {
	var err error
	if s.Objects, s.Bytes, err = Count(s.Root()); err != nil {
		return fmt.Errorf("count what was made: %w", err)
	}
	s.Whole = true
	return s.save()
}

func (s *Set) save() error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.WriteFile(s.record(), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("record the data set: %w", err)
	}
	return nil
}

// Count returns the number of objects below a folder and the bytes of its regular files.
func Count(root string) (objects, bytes int64, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		objects++
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return objects, bytes, err
}

// scaled returns a share of n, 1 at least.
func scaled(n int, scale float64) int { return max(1, int(float64(n)*scale+0.5)) }
