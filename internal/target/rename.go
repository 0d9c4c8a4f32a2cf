package target

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// replacements is how often a name is given to another file while it is read.
const replacements = 200

// patience bounds the time that replacing takes where every request goes over a slow line.
const patience = 10 * time.Second

// versionSize is the size of the files that replace each other, in bytes: more than a block.
const versionSize = 10_000

// version is a file that tells of every part of it which version it belongs to.
func version(i int) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, uint64(i)), versionSize/8)
}

// whole reports whether data is one version.
func whole(data []byte) bool {
	return len(data) == len(version(0)) && bytes.Equal(data, bytes.Repeat(data[:8], len(data)/8))
}

// rename replaces a file again and again while others read it.
func (p *prober) rename() error {
	const name = "replaced"
	if err := p.folder.Write(name, version(0), true); err != nil {
		return err
	}
	var reads, missed, torn atomic.Uint64
	ctx, stop := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.readOn(ctx, name, &reads, &missed, &torn) }()
	done, refusing, err := p.replace(name)
	stop()
	if readErr := <-ended; err == nil {
		err = readErr
	}
	if err != nil {
		return err
	}
	seen := fmt.Sprintf("A name was given to another file %d times while it was read %s times", done,
		human.Count(reads.Load()))
	switch {
	case refusing != nil:
		p.report.add("rename", Unfit, fmt.Sprintf("A rename does not replace what is there: %v.", refusing),
			"tidemark gives every file its name that way: choose another target, or "+p.otherWay())
	case torn.Load() > 0:
		p.report.add("rename", Unfit, fmt.Sprintf("%s, and %s what was read belonged to no single file.", seen,
			times(torn.Load())), "do not use this target: a reader may see what was never written")
	case p.share && missed.Load() > 0 && missed.Load()*20 < reads.Load():
		p.report.add("rename", Told, fmt.Sprintf("%s: it was always whole, and %s not there for a moment.", seen,
			times(missed.Load())), "only the presence of machines is a file that is replaced: it is listed several times")
	case missed.Load() > 0:
		p.report.add("rename", Degraded, fmt.Sprintf("%s, and %s there was nothing under it.", seen,
			times(missed.Load())), "only the presence of machines is a file that is replaced: it is listed several times")
	default:
		seen += ": it was always there, and always whole."
		if p.held != nil && p.held() > 0 {
			seen += " While it was open the server refused, and it was tried again."
		}
		p.report.add("rename", Good, seen, "")
	}
	return nil
}

// times says how often.
func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return human.Count(n) + " times"
}

// replace returns how often it replaced, in refusing that renaming does not do what it should, and in err what has nothing
// to do with renaming.
func (p *prober) replace(name string) (done int, refusing, err error) {
	begin := time.Now()
	for i := 1; i <= replacements && (i <= 2 || time.Since(begin) < patience); i++ {
		fresh := fmt.Sprintf("version-%d", i)
		if err := p.folder.Write(fresh, version(i), false); err != nil {
			return done, nil, err
		}
		if err := p.folder.Rename(fresh, name); err != nil {
			if ends(err) {
				return done, nil, err
			}
			return done, err, nil
		}
		done = i
		if i%50 != 1 {
			continue
		}
		data, _, err := p.folder.Read(name)
		if err != nil {
			return done, nil, err
		}
		if !bytes.Equal(data, version(i)) {
			return done, errors.New("the old file is still there"), nil
		}
		switch _, _, err := p.folder.Read(fresh); {
		case err == nil:
			return done, errors.New("the file has both names"), nil
		case ends(err):
			return done, nil, err
		}
	}
	return done, nil, nil
}

// readOn reads a file until ctx ends.
func (p *prober) readOn(ctx context.Context, name string, reads, missed, torn *atomic.Uint64) error {
	for ctx.Err() == nil {
		data, _, err := p.folder.Read(name)
		reads.Add(1)
		switch {
		case ends(err):
			return err
		case err == nil && !whole(data), errors.Is(err, io.EOF):
			torn.Add(1)
		case err != nil:
			missed.Add(1)
		}
	}
	return nil
}
