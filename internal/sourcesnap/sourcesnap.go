package sourcesnap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The kinds of snapshots.
const (
	Off   = "off"
	Auto  = "auto" // of btrfs or APFS where that is possible
	Btrfs = "btrfs"
	APFS  = "apfs"
	Hook  = "hook"
)

// Maker makes one kind of snapshot.
type Maker interface {
	// Make returns where a source is in a snapshot of its file system. Sources of one file system share a snapshot.
	Make(ctx context.Context, source string) (place string, err error)
	// Close removes the snapshots.
	Close(ctx context.Context) error
}

// Snapshots are those from which one backup reads its sources.
type Snapshots struct {
	Since time.Time // before they were made
	Notes []string  // why sources are read live
	maker Maker
	at    map[string]string // by the absolute path of a source
}

// New returns the maker of a kind other than Hook. Its error says that this system has none.
func New(kind string) (Maker, error) {
	switch kind {
	case Btrfs:
		return newBtrfs()
	case APFS:
		return newAPFS()
	}
	b, err := newBtrfs()
	if err == nil {
		return b, nil
	}
	return newAPFS()
}

// Take makes the snapshots for some sources, which are absolute paths. A source that does not exist, or is a symbolic
// link, is left out. With optional set, a source without a snapshot is read live, and a note says why; otherwise that
// is an error, and no snapshot is left.
func Take(ctx context.Context, m Maker, sources []string, optional bool) (s *Snapshots, err error) {
	s = &Snapshots{Since: time.Now(), maker: m, at: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close(context.WithoutCancel(ctx)))
		}
	}()
	for _, source := range sources {
		info, err := os.Lstat(source)
		if err != nil || info.Mode().Type() == os.ModeSymlink {
			continue // the backup stores the link, or reports the error
		}
		place, err := m.Make(ctx, source)
		if err == nil {
			err = check(source, info, place)
		}
		switch {
		case err == nil:
			s.at[source] = place
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case optional:
			s.Notes = append(s.Notes, fmt.Sprintf("%s is read live, without a snapshot of its file system: %v", source, err))
		default:
			return nil, fmt.Errorf("make a snapshot of the file system of %s: %w", source, err)
		}
	}
	return s, nil
}

// check refuses a place that cannot stand for a source.
func check(source string, is os.FileInfo, place string) error {
	if !filepath.IsAbs(place) {
		return fmt.Errorf("%w: %q is not an absolute path", ErrPlace, place)
	}
	info, err := os.Lstat(place)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlace, err)
	}
	if info.Mode().Type() != is.Mode().Type() {
		return fmt.Errorf("%w: %s is not of the same type as the source", ErrPlace, place)
	}
	if source != "/" && filepath.Base(place) != filepath.Base(source) {
		return fmt.Errorf("%w: %s must end in the name %s: mount it at such a path", ErrPlace, place, filepath.Base(source))
	}
	return nil
}

// Place returns where a source is in a snapshot; "" if it is read live.
func (s *Snapshots) Place(source string) string { return s.at[source] }

// Any reports whether there is a snapshot.
func (s *Snapshots) Any() bool { return len(s.at) > 0 }

// Close removes the snapshots.
func (s *Snapshots) Close(ctx context.Context) error {
	if err := s.maker.Close(ctx); err != nil {
		return fmt.Errorf("remove the snapshot of a file system: %w", err)
	}
	return nil
}

// Commands makes snapshots by commands of the user.
type Commands struct {
	// Begin makes a snapshot for a source. The last line of its output is where the source is in it.
	Begin func(ctx context.Context, source string) (output string, err error)
	// End removes the snapshot; nil: nothing is to be done. It is called after each Begin, also one that failed: place is
	// "" then.
	End func(ctx context.Context, source, place string) error

	made [][2]string // source and place
}

// Make implements Maker.
func (c *Commands) Make(ctx context.Context, source string) (place string, err error) {
	output, err := c.Begin(ctx, source)
	if err == nil {
		lines := strings.Split(strings.TrimSpace(output), "\n")
		place = cmp.Or(strings.TrimSpace(lines[len(lines)-1]), "an empty line")
	}
	c.made = append(c.made, [2]string{source, place})
	return place, err
}

// Close implements Maker.
func (c *Commands) Close(ctx context.Context) (err error) {
	for i := len(c.made) - 1; i >= 0 && c.End != nil; i-- {
		err = errors.Join(err, c.End(ctx, c.made[i][0], c.made[i][1]))
	}
	c.made = nil
	return err
}
