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

// The same files as macOS' backupd writes before each backup.
const (
	largeSize  = 50_000_000
	smallSize  = 4 << 10
	smallFiles = 500
	// parallel is how many small files are written at a time: enough for a round trip of 15 ms, few enough for a disk.
	parallel = 64
)

// Speed is how fast a target takes files. A file counts as written when the target acknowledged its flush.
type Speed struct {
	Path  string // as given by the user
	Large Burst
	Small Burst
}

// Burst is a number of files that were written as fast as possible.
type Burst struct {
	Files   int
	Size    int64 // bytes of each
	Elapsed time.Duration
}

// Rate returns bytes per second.
func (b Burst) Rate() float64 {
	if b.Elapsed <= 0 {
		return 0
	}
	return float64(b.Files) * float64(b.Size) / b.Elapsed.Seconds()
}

// Lines returns the lines that backupd writes to its log.
func (s *Speed) Lines() []string {
	return []string{
		fmt.Sprintf("Checking destination IO performance at %q", s.Path),
		fmt.Sprintf("Wrote 1 50 MB file at %.2f MB/s to %q in %.3f seconds", s.Large.Rate()/1e6, s.Path,
			s.Large.Elapsed.Seconds()),
		fmt.Sprintf("Concurrently wrote %d 4 KB files at %.2f MB/s to %q in %.3f seconds", s.Small.Files,
			s.Small.Rate()/1e6, s.Path, s.Small.Elapsed.Seconds()),
	}
}

// MeasureFolder measures an existing folder through the store that backups use, in a scratch folder that is removed
// afterwards. It needs 50 MB of memory and of disk space; a full target is store.ErrNoSpace.
func MeasureFolder(ctx context.Context, path string, pass *iopolicy.Pass) (*Speed, error) {
	var speed *Speed
	dir, err := openFolder(localfs.IOContext{Ctx: ctx, Pass: pass}, path)
	if err == nil {
		dir.Release()
		err = local.Scratch(ctx, path, pass, func(name string, open func(string) store.Store) (err error) {
			speed, err = measure(ctx, open(name), path)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("check destination %s: %w", path, withCause(ctx, err))
	}
	return speed, nil
}

// MeasureServer is MeasureFolder for a Store on a server.
func MeasureServer(ctx context.Context, st store.Remote) (*Speed, error) {
	var speed *Speed
	err := st.Scratch(ctx, func(name string, open func(string) store.Store) (err error) {
		speed, err = measure(ctx, open(name), st.Location())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check destination: %w", withCause(ctx, err))
	}
	return speed, nil
}

// withCause adds the cause of the end of ctx to err.
func withCause(ctx context.Context, err error) error {
	if stop := context.Cause(ctx); stop != nil && !errors.Is(err, stop) {
		return errors.Join(stop, err)
	}
	return err
}

// measure measures an empty store. It must not be the repository, whose readers would find the files. path is the name
// in the result.
func measure(ctx context.Context, st store.Store, path string) (*Speed, error) {
	speed, err := timed(ctx, st, path)
	if errors.Is(err, store.ErrNoSpace) {
		return nil, &store.Problem{
			What: "there is not enough space to measure with", Do: "free 60 MB or more, or skip the measurement",
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
	// The first file creates the folders, which exist when a backup begins.
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
	group.SetLimit(parallel)
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

// nameOf returns the name that stored data has.
func nameOf(kind store.Kind, data []byte) store.Name {
	sum := blake3.Sum256(data)
	return store.Name{Kind: kind, ID: hex.EncodeToString(sum[:])}
}
