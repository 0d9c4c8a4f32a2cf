package share

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

const (
	packSize   = 16 << 20 // as a backup makes them
	packCount  = 16       // in one round
	smallSize  = 4 << 10
	smallCount = 500
	uploads    = 4 // as a backup has them
	roundTrip  = 15 * time.Millisecond
)

// The parts of this benchmark.
const (
	ofPacks   = "packs"
	ofLine    = "line"
	ofSmall   = "small"
	ofBackups = "backups"
	ofCounts  = "counts"
)

// noise returns incompressible bytes, the same ones for the same seed.
func noise(size int, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	p := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(p) // it never fails
	return p
}

// load is a set of files to store.
type load struct {
	kind  store.Kind
	files [][]byte
}

func packLoad(n int) load {
	l := load{kind: store.Pack}
	for i := range n {
		l.files = append(l.files, noise(packSize, uint64(i)))
	}
	return l
}

func smallLoad() load {
	l := load{kind: store.Index}
	for i := range smallCount {
		l.files = append(l.files, noise(smallSize, uint64(i)))
	}
	return l
}

// bytes is the size of all of it.
func (l load) bytes() (n int) {
	for _, f := range l.files {
		n += len(f)
	}
	return n
}

func (l load) name(i int) store.Name {
	return store.Name{Kind: l.kind, ID: fmt.Sprintf("%02x%062x", i%256, i)}
}

// put stores the first n files, so many concurrently, and returns how long that took.
func (l load) put(ctx context.Context, st store.Store, n, at int) (time.Duration, error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(at)
	for i := range n {
		group.Go(func() error { return st.Put(ctx, l.name(i), l.files[i]) })
	}
	err := group.Wait()
	return time.Since(began), err
}

// client makes the input of smbclient for the same files: a folder with them, and a script.
func (b *bench) client(l load, folder string) (func(context.Context) (time.Duration, error), error) {
	dir, err := os.MkdirTemp(b.scratch, "files-")
	if err != nil {
		return nil, err
	}
	script := []string{"lcd " + dir, "mkdir " + folder, "cd " + folder}
	for i, data := range l.files {
		name := l.name(i).ID
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
		script = append(script, "put "+name)
	}
	text := filepath.Join(dir, "script")
	if err := os.WriteFile(text, []byte(strings.Join(script, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (time.Duration, error) {
		in, err := os.Open(text)
		if err != nil {
			return 0, err
		}
		defer func() { _ = in.Close() }()
		began := time.Now()
		cmd := exec.CommandContext(ctx, "smbclient", "//127.0.0.1/"+smbtest.Share, "-p", fmt.Sprint(b.share.Port),
			"-U", b.share.User+"%"+smbtest.Password)
		cmd.Stdin = in
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("smbclient: %w\n%s", err, out)
		}
		return time.Since(began), nil
	}, nil
}

func megabytes(n int, d time.Duration) float64 { return float64(n) / 1e6 / d.Seconds() }

// packs: measurement 1.
func (b *bench) packs(ctx context.Context) error {
	s, err := b.server()
	if err != nil {
		return err
	}
	l := packLoad(packCount)
	st, err := b.open(ctx, s.Port, "packs-ours", smb.Options{})
	if err != nil {
		return err
	}
	unseen, err := b.open(ctx, s.Port, "packs-unseen", smb.Options{Verify: smb.VerifyOff})
	if err != nil {
		return err
	}
	theirs, err := b.client(l, "packs-theirs")
	if err != nil {
		return err
	}
	candidates := []candidate{
		{"smbclient put", theirs},
		{"tidemark", func(ctx context.Context) (time.Duration, error) { return l.put(ctx, st, len(l.files), uploads) }},
		{"tidemark, --verify-writes off", func(ctx context.Context) (time.Duration, error) {
			return l.put(ctx, unseen, len(l.files), uploads)
		}},
	}
	return b.turns(ctx, ofPacks, candidates, func(d time.Duration) map[string]float64 {
		return map[string]float64{"rate": megabytes(l.bytes(), d)}
	})
}

// candidate is one of those that take turns.
type candidate struct {
	name string
	do   func(context.Context) (time.Duration, error)
}

// turns runs each candidate once in each round, each time in another order, after a round that is not counted.
func (b *bench) turns(ctx context.Context, part string, all []candidate,
	values func(time.Duration) map[string]float64) error {
	for round := -1; round < b.runs; round++ {
		for i := range all {
			c := all[(i+max(round, 0))%len(all)]
			took, err := c.do(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if round >= 0 {
				b.record(part, c.name, round, values(took))
			}
		}
	}
	return nil
}

// line: measurement 2.
func (b *bench) line(ctx context.Context) error {
	s, err := b.server()
	if err != nil {
		return err
	}
	p := smbtest.NewProxy(b, s.Addr(), roundTrip)
	l := packLoad(packCount)
	pool, err := b.open(ctx, p.Port, "line-pool", smb.Options{})
	if err != nil {
		return err
	}
	single, err := b.open(ctx, p.Port, "line-single", smb.Options{Parallel: smb.Parallel{Sessions: 1, Inflight: 1}})
	if err != nil {
		return err
	}
	const few = packCount / 4 // of the slow one
	return b.turns(ctx, ofLine, []candidate{
		{"one session, one request", func(ctx context.Context) (time.Duration, error) {
			took, err := l.put(ctx, single, few, 1)
			return took * packCount / few, err
		}},
		{"tidemark", func(ctx context.Context) (time.Duration, error) { return l.put(ctx, pool, packCount, uploads) }},
	}, func(d time.Duration) map[string]float64 { return map[string]float64{"rate": megabytes(l.bytes(), d)} })
}

// small: measurement 3.
func (b *bench) small(ctx context.Context) error {
	s, err := b.server()
	if err != nil {
		return err
	}
	p := smbtest.NewProxy(b, s.Addr(), roundTrip)
	l := smallLoad()
	near, err := b.open(ctx, s.Port, "small-near", smb.Options{})
	if err != nil {
		return err
	}
	far, err := b.open(ctx, p.Port, "small-far", smb.Options{})
	if err != nil {
		return err
	}
	theirs, err := b.client(l, "small-theirs")
	if err != nil {
		return err
	}
	const few = smallCount / 5 // of those that take the line
	return b.turns(ctx, ofSmall, []candidate{
		{"smbclient put", theirs},
		{"tidemark", func(ctx context.Context) (time.Duration, error) { return l.put(ctx, near, smallCount, uploads) }},
		{"tidemark, over 15 ms", func(ctx context.Context) (time.Duration, error) {
			took, err := l.put(ctx, far, few, uploads)
			return took * smallCount / few, err
		}},
	}, func(d time.Duration) map[string]float64 { return map[string]float64{"files": smallCount / d.Seconds()} })
}
