package target

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// What is written, as macOS' backupd does before each backup.
const (
	largeSize  = 50_000_000
	smallSize  = 4 << 10
	smallFiles = 500
	// atOnce is how many small files are under way at a time: enough to fill a line of 15 ms, and few enough for a disk.
	atOnce = 64
)

// Speed is how fast a place took files. Each was durable, by the word of the place, when it counted as written.
type Speed struct {
	Path  string // what the check is said to be about
	Large Burst
	Small Burst
}

// Burst is a number of files that were written as fast as possible.
type Burst struct {
	Files   int
	Size    int64 // bytes of each
	Elapsed time.Duration
}

// Rate is in bytes per second.
func (b Burst) Rate() float64 {
	if b.Elapsed <= 0 {
		return 0
	}
	return float64(b.Files) * float64(b.Size) / b.Elapsed.Seconds()
}

// Lines are those that backupd writes into the log.
func (s *Speed) Lines() []string {
	return []string{
		fmt.Sprintf("Checking destination IO performance at %q", s.Path),
		fmt.Sprintf("Wrote 1 50 MB file at %.2f MB/s to %q in %.3f seconds", s.Large.Rate()/1e6, s.Path,
			s.Large.Elapsed.Seconds()),
		fmt.Sprintf("Concurrently wrote %d 4 KB files at %.2f MB/s to %q in %.3f seconds", s.Small.Files,
			s.Small.Rate()/1e6, s.Path, s.Small.Elapsed.Seconds()),
	}
}

// MeasureFolder measures an existing folder through the store that backups use. What it writes is gone when it returns,
// also when ctx ends. Needs 50 MB of memory and a little more of space; a full target is store.ErrNoSpace.
func MeasureFolder(ctx context.Context, path string, pass *iopolicy.Pass) (*Speed, error) {
	door := localfs.Door{Ctx: ctx, Pass: pass}
	parent, err := openFolder(door, path)
	if err != nil {
		return nil, fmt.Errorf("check destination %s: %w", path, err)
	}
	defer parent.Release()
	var speed *Speed
	err = inside(door, parent, path, func(r *room) error {
		st, err := local.Open(r.path, pass)
		if err != nil {
			return err
		}
		speed, err = measure(ctx, st, path)
		return err
	})
	if stop := context.Cause(ctx); err != nil && stop != nil && !errors.Is(err, stop) {
		err = errors.Join(stop, err)
	}
	if err != nil {
		return nil, fmt.Errorf("check destination %s: %w", path, err)
	}
	return speed, nil
}

// measure measures a store that holds nothing yet, in a folder that is removed afterwards; never the repository itself,
// whose readers would find what is written. path is what the place is called.
func measure(ctx context.Context, st store.Store, path string) (*Speed, error) {
	speed, err := timed(ctx, st, path)
	if errors.Is(err, store.ErrNoSpace) {
		return nil, &store.Problem{
			What: "there is not enough space to measure with", Do: "free 60 MB or more, or do without measuring",
			Kinds: []error{store.ErrNoSpace},
		}
	}
	return speed, err
}

func timed(ctx context.Context, st store.Store, path string) (*Speed, error) {
	speed := &Speed{Path: path, Large: Burst{Files: 1, Size: largeSize}, Small: Burst{Files: smallFiles, Size: smallSize}}
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // crypto/rand.Read never fails
	data := make([]byte, largeSize)
	_, _ = mathrand.NewChaCha8(seed).Read(data) // never fails
	large := nameOf(store.Pack, data)
	// A first file makes the folders, which are there when a backup begins.
	if err := st.Put(ctx, store.Name{Kind: store.Lease, ID: "0"}, nil); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := st.Put(ctx, large, data); err != nil {
		return nil, err
	}
	speed.Large.Elapsed = time.Since(begin)
	names := make([]store.Name, smallFiles)
	for i := range names {
		names[i] = nameOf(store.Lease, data[i*smallSize:][:smallSize])
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	begin = time.Now()
	for i, name := range names {
		group.Go(func() error { return st.Put(groupCtx, name, data[i*smallSize:][:smallSize]) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	speed.Small.Elapsed = time.Since(begin)
	return speed, nil
}

// nameOf is the name by which a store can prove what it holds.
func nameOf(kind store.Kind, data []byte) store.Name {
	sum := blake3.Sum256(data)
	return store.Name{Kind: kind, ID: hex.EncodeToString(sum[:])}
}
