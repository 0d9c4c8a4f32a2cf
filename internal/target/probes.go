package target

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

const (
	// replacements is how often a file is replaced while another store reads it.
	replacements = 100
	// replaceTimeout bounds that on slow targets, after leastReplacements: a disk with an arm flushes 6 a second, and
	// each of these flushes is in the way of all others who use it.
	replaceTimeout = time.Second
	// leastReplacements is how often a file is replaced however long that takes.
	leastReplacements = 5
	// sharePause is the wait between reads on a share, whose server refuses to replace a file that is open.
	sharePause = 5 * time.Millisecond
	// versionSize is the size of the files that replace each other, in bytes: more than a block.
	versionSize = 10_000
	// flushes is how many flushes are timed; two outliers do not change the median.
	flushes = 5
	// flushSize is how much each flush makes durable, in bytes.
	flushSize = 1 << 20
	// instant is less than any device needs for flushSize: that would be 33 GB/s.
	instant = 30 * time.Microsecond
	// clockTolerance is how far a clock may be off before that is worth a warning.
	clockTolerance = 5 * time.Minute
)

// noise returns bytes that no file system can compress or has seen before.
func noise(seed byte, n int) []byte {
	data := make([]byte, n)
	var key [32]byte
	key[0] = seed
	_, _ = rand.NewChaCha8(key).Read(data) // never fails
	return data
}

// write stores a file with a name of 64 digits, reads it back and lists it.
func (p *prober) write(st store.Store) error {
	data := noise(2, 256<<10)
	name := nameOf(store.Pack, data)
	if err := st.Put(p.ctx, name, data); err != nil {
		return err
	}
	back := make([]byte, len(data))
	if err := st.Get(p.ctx, name, 0, back); interrupted(err) {
		return err
	} else if err != nil || !bytes.Equal(data, back) {
		p.report.add("write", Unfit, "A file that was written and flushed has other content when it is read.",
			"do not use this target: it, or the connection to it, damages data")
		return nil
	}
	listed := false
	for info, err := range st.List(p.ctx, store.Pack) {
		if err != nil {
			return err
		}
		listed = listed || info.Name == name
	}
	if !listed {
		p.report.add("write", Unfit, "A file with a name of 64 lower-case hexadecimal digits is listed under another name.",
			"the target changes names (8.3 names): choose other mount options or another target")
		return nil
	}
	p.report.add("write", Good, "A file was written, flushed, read back and listed under its name.", "")
	return nil
}

// version returns a file whose every part names the version it belongs to.
func version(i int) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, uint64(i)), versionSize/8)
}

// reads counts the results of concurrent reads of a file that is being replaced.
type reads struct{ all, missing, torn atomic.Uint64 }

// rename replaces a file repeatedly while another store reads it.
func (p *prober) rename(st store.Store) error {
	name := store.Name{Kind: store.Lease, ID: "0"}
	if err := st.Put(p.ctx, name, version(0)); err != nil {
		return err
	}
	reader := p.open(p.name) // st itself keeps its reads apart from its writes
	var seen reads
	ctx, stop := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.readWhile(ctx, reader, name, &seen) }()
	done, fault, err := p.replace(st, name)
	stop()
	if readErr := <-ended; err == nil {
		err = readErr
	}
	if err != nil {
		return err
	}
	what := fmt.Sprintf("A file was replaced %d times while it was read %s times", done, human.Count(seen.all.Load()))
	missing := seen.missing.Load()
	switch {
	case fault != nil:
		p.report.add("rename", Unfit, fmt.Sprintf("A rename does not replace the existing file: %v.", fault),
			"choose other mount options or another target: tidemark gives every file its name by a rename")
	case seen.torn.Load() > 0:
		p.report.add("rename", Unfit, fmt.Sprintf("%s; %s reads returned a mixture of two files.", what,
			human.Count(seen.torn.Load())), "do not use this target: readers may see data that was never written")
	case missing == 0:
		p.report.add("rename", Good, what+": it was always there, and always whole.", "")
	default:
		result := Degraded
		if p.share && missing*20 < seen.all.Load() {
			result = Info // Samba does so now and then
		}
		p.report.add("rename", result, fmt.Sprintf("%s: it was always whole, and missing for a moment in %s reads.", what,
			human.Count(missing)), "only leases are replaced; tidemark lists them repeatedly")
	}
	return nil
}

// replace returns the number of replacements. fault says that a rename does not replace, err is any other failure.
func (p *prober) replace(st store.Store, name store.Name) (done int, fault, err error) {
	begin := time.Now()
	back := make([]byte, len(version(0)))
	for i := 1; i <= replacements && (i <= leastReplacements || time.Since(begin) < replaceTimeout); i++ {
		if err := st.Put(p.ctx, name, version(i)); err != nil {
			if interrupted(err) || errors.Is(err, store.ErrNoSpace) || p.ctx.Err() != nil {
				return done, nil, err
			}
			return done, store.Brief(err), nil
		}
		done = i
		if i%25 != 1 {
			continue
		}
		if err := st.Get(p.ctx, name, 0, back); err != nil {
			return done, nil, err
		}
		if !bytes.Equal(back, version(i)) {
			return done, errors.New("the old file is still there"), nil
		}
	}
	return done, nil, nil
}

// readWhile reads a file until ctx ends.
func (p *prober) readWhile(ctx context.Context, st store.Store, name store.Name, seen *reads) error {
	data := make([]byte, len(version(0)))
	for ctx.Err() == nil {
		if p.share {
			time.Sleep(sharePause)
		}
		err := st.Get(ctx, name, 0, data)
		if ctx.Err() != nil {
			return nil
		}
		if open := errors.Is(err, store.ErrTemporary) && !errors.Is(err, store.ErrGone); open {
			continue // the file is open elsewhere, in the moment of a rename
		}
		seen.all.Add(1)
		switch {
		case errors.Is(err, store.ErrShort),
			err == nil && !bytes.Equal(data, bytes.Repeat(data[:8], len(data)/8)):
			seen.torn.Add(1)
		case errors.Is(err, store.ErrTemporary):
			return err
		case err != nil:
			seen.missing.Add(1)
		}
	}
	return nil
}

// caseFolding opens the scratch folder by its name in capitals.
func (p *prober) caseFolding(store.Store) error {
	st := p.open(path.Join(path.Dir(p.name), strings.ToUpper(path.Base(p.name))))
	_, err := st.Stat(p.ctx, store.Name{Kind: store.Lease, ID: "0"})
	switch {
	case err == nil:
		p.report.add("case", Info, "Names that differ only in case are one file.", "nothing: all names are lower-case")
	case errors.Is(err, store.ErrNotExist) || errors.Is(err, store.ErrGone) && !errors.Is(err, store.ErrTemporary):
		p.report.add("case", Info, "Names that differ only in case are different files.", "")
	default:
		return err
	}
	return nil
}

// clock compares the time stamp of a new file with the clock of this machine.
func (p *prober) clock(st store.Store) error {
	name := store.Name{Kind: store.Lease, ID: "1"}
	before := p.now()
	if err := st.Put(p.ctx, name, []byte("x")); err != nil {
		return err
	}
	took := p.now().Sub(before)
	info, err := st.Stat(p.ctx, name)
	if err != nil {
		return err
	}
	off := info.Modified.Sub(before)
	if off > -2*time.Second && off < took+2*time.Second { // FAT keeps times to 2 seconds
		p.report.add("clock", Good, "The target's clock agrees with the one of this machine, to 2 seconds.", "")
		return nil
	}
	direction := "ahead of"
	if off < 0 {
		direction = "behind"
	}
	what := fmt.Sprintf("The target's clock is %s %s the one of this machine.", off.Abs().Round(time.Second), direction)
	if off.Abs() < clockTolerance {
		p.report.add("clock", Good, what, "")
		return nil
	}
	p.report.add("clock", Degraded, what,
		"correct the wrong clock. No data is in danger: the leases of other machines are "+
			"judged by the target's clock alone; snapshots bear the time of this machine")
	return nil
}

// timeFlush decides by the time that flushes take whether a flush does anything.
func (p *prober) timeFlush(door localfs.IOContext, path string) error {
	if p.report.Device.Medium == device.Memory {
		p.report.add("flush", Info, "In memory there is nothing to flush.", "")
		return nil
	}
	dir, err := door.OpenDir(path)
	if err != nil {
		return err
	}
	defer dir.Release()
	took, promise := make([]time.Duration, flushes), pages.Durable
	for i := range took {
		if took[i], promise, err = flushOne(dir, fmt.Sprintf("flush-%d", i)); err != nil {
			return err
		}
	}
	slices.Sort(took)
	p.judgeFlush(took[flushes/2], promise)
	return nil
}

func flushOne(dir *localfs.Dir, name string) (took time.Duration, promise pages.Promise, err error) {
	f, err := dir.CreateFile(name)
	if err != nil {
		return 0, promise, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err = f.WriteAt(noise(1, flushSize), 0); err != nil {
		return 0, promise, err
	}
	begin := time.Now()
	promise, err = f.Flush()
	return time.Since(begin), promise, err
}

func (p *prober) judgeFlush(median time.Duration, promise pages.Promise) {
	what := fmt.Sprintf("Flushing 1 MiB took %s (median of %d)", median.Round(time.Microsecond), flushes)
	switch {
	case promise != pages.Durable && p.report.Device.Medium != device.Remote:
		p.report.add("flush", Degraded, what+". This file system cannot flush the cache of the disk (F_FULLFSYNC).",
			"eject the disk before you unplug it, and run 'tidemark check' after a power failure; APFS can flush")
	case median < instant:
		p.report.add("flush", Degraded, what+". No device is that fast: flushing does nothing here.",
			"after a power failure at the target the last minutes may be missing or torn: run 'tidemark check' then, and mount "+
				"it without options such as volatile")
	case p.report.Device.Medium == device.Remote:
		p.report.add("flush", Good, what+".", serverFlush)
	default:
		p.report.add("flush", Good, fmt.Sprintf("%s, %s.", what, human.Megabytes(flushSize/median.Seconds())), "")
	}
}

// serverFlush is what to know about flushes on a server.
const serverFlush = "whether the server's disk flushes cannot be seen from here: set 'strict sync = yes' on Samba, " +
	"and do not export by NFS with async"

// serverFlush reports what the acknowledged writes of the probes before are worth.
func (p *prober) serverFlush() error {
	p.report.add("flush", Info, p.link.Durable, p.link.Advice)
	return nil
}

const (
	// racers want the same name at once, in each of contests rounds.
	racers, contests = 32, 4
)

// exclusive has many writers create the same file on a server whose conditions decide which of them gets it.
func (p *prober) exclusive(st store.Store) error {
	if !p.link.Conditional {
		return nil
	}
	odd := int64(1) // how many succeeded where it was not one
	for i := range contests {
		name := store.Name{Kind: store.Lease, ID: fmt.Sprintf("e%x", i)}
		var won atomic.Int64
		group, ctx := errgroup.WithContext(p.ctx)
		for j := range racers {
			group.Go(func() error {
				_, err := st.PutNew(ctx, name, version(j))
				if err == nil {
					won.Add(1)
				}
				if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrTemporary) {
					return nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if n := won.Load(); n != 1 {
			odd = n
		}
	}
	if odd != 1 {
		p.report.add("exclusive", Degraded, fmt.Sprintf("Of %d writers of one new file, %d succeeded.", racers, odd),
			"backups stay safe; prune only with --exclusive, while no other process uses the repository")
		return nil
	}
	p.report.add("exclusive", Good, fmt.Sprintf("Of %d writers of one new file, one succeeded, %d times.", racers,
		contests), "")
	return nil
}
