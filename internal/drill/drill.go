// Package drill restores sampled files into a temporary folder, verifies them, and removes the folder. Each restored
// file is read back and compared with the IDs in the repository. If the file on this machine is unchanged since the
// backup (size, times and inode), the restored file is compared with it byte by byte as well.
package drill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// MaxFiles is how many files are restored at most: their paths are in memory.
const MaxFiles = 100_000

// piece is how much of a file is compared at once.
const piece = 1 << 20

// Options says what is restored.
type Options struct {
	Snapshots []repo.Listed // from which files are chosen
	Files     uint64        // how many; 0: Percent
	Percent   float64       // of a hundred files
	Seed      uint64        // the same seed chooses the same files of the same snapshots
	Folder    string        // in which the folder of the drill is made
	Host      string        // this machine: files of other machines are not compared with those here
	Gate      localfs.Gates
	Workers   int // as of restore.Run
}

// Result is how it ended.
type Result struct {
	Snapshots  int    `json:"snapshots"` // sampled
	Files      uint64 `json:"files"`     // restored and verified
	Bytes      uint64 `json:"bytes"`
	Live       uint64 `json:"files_compared_live"` // also with the live file
	PassedOver uint64 `json:"files_skipped"`       // no space
	Failed     uint64 `json:"files_failed"`        // failed or different
	Seed       uint64 `json:"seed"`                // for `--restore-sample-seed`

	Damaged []format.ID `json:"-"` // packs that could not be read
}

// errLive: the repository holds something else than the disk.
var errLive = errors.New("the restored file differs from the file on this machine, whose size and times say that it " +
	"is unchanged since the backup: one of the two is damaged, and the restored one has the bytes that were backed up")

// chosen is one file of the sample.
type chosen struct {
	snapshot int // its place in Options.Snapshots
	path     string
	node     tree.Node // without content
}

// Run makes a drill. Failures of single files are in the ledger, which is one of a restore; an error says that the
// drill could not be made.
func Run(ctx context.Context, r *repo.Repository, opt Options, l *report.Ledger) (res *Result, err error) {
	l.Phase(report.Planning)
	res = &Result{Snapshots: len(opt.Snapshots), Seed: opt.Seed}
	sample, err := choose(ctx, r, &opt, false)
	if err != nil {
		return res, err
	}
	folder, err := os.MkdirTemp(opt.Folder, "tidemark-drill-")
	if err != nil {
		return res, fmt.Errorf("make a folder for restored files: %w", err)
	}
	defer func() { err = errors.Join(err, remove(folder)) }()
	if sample, err = fitting(folder, sample, res); err != nil {
		return res, err
	}
	failed := newFailures(l)
	for i := range opt.Snapshots {
		files := map[string]*chosen{}
		for k := range sample {
			if sample[k].snapshot == i {
				files[sample[k].path] = &sample[k]
			}
		}
		if len(files) == 0 {
			continue
		}
		err := one(ctx, r, &opt, i, files, filepath.Join(folder, fmt.Sprint(i)), l, res)
		res.Failed += failed.among(files)
		if err != nil {
			return res, err
		}
	}
	l.Phase(report.Done)
	return res, nil
}

// choose takes files by chance: each has the same chance, whatever folder it is in. few takes those for One, among the
// first ones.
func choose(ctx context.Context, r *repo.Repository, opt *Options, few bool) (sample []chosen, err error) {
	rng := rand.New(rand.NewPCG(opt.Seed, 0))
	limit, seen, what := min(opt.Files, MaxFiles), uint64(0), "files"
	if few {
		limit, what = oneSample, "a file"
	}
	take := func(c chosen) {
		if limit == 0 { // a share
			if rng.Float64()*100 < opt.Percent && len(sample) < MaxFiles {
				sample = append(sample, c)
			}
			return
		}
		if seen++; uint64(len(sample)) < limit {
			sample = append(sample, c)
		} else if k := rng.Uint64N(seen); k < limit {
			sample[k] = c
		}
	}
	for i, s := range opt.Snapshots {
		if err := walk(ctx, r, s.Snapshot.Tree, "/", func(at string, n *tree.Node) error {
			if few && (n.Size == 0 || n.Size > oneSize) {
				return nil
			}
			kept := *n
			kept.Content, kept.Xattrs = tree.Content{}, nil
			if take(chosen{i, at, kept}); few && seen == oneVisited {
				return errEnough
			}
			return nil
		}); err != nil && !errors.Is(err, errEnough) {
			return nil, fmt.Errorf("choose %s of snapshot %s: %w", what, s.ID.Short(), err)
		}
	}
	rng.Shuffle(len(sample), func(a, b int) { sample[a], sample[b] = sample[b], sample[a] })
	return sample, nil
}

// walk visits the files whose content is in the snapshot, until visit returns an error.
func walk(ctx context.Context, r *repo.Repository, root format.ID, at string,
	visit func(string, *tree.Node) error) error {
	return tree.Walk(ctx, r.LoadBlob, root, func(n *tree.Node) error {
		switch {
		case n.Type == tree.Dir:
			return walk(ctx, r, n.Subtree, path.Join(at, n.Name), visit)
		case n.Type == tree.File && n.Outcome < tree.Skipped:
			return visit(path.Join(at, n.Name), n)
		}
		return nil
	})
}

// fitting leaves out files for which there is no space: half of the free space stays free.
func fitting(folder string, sample []chosen, res *Result) ([]chosen, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return nil, fmt.Errorf("read the free space of %s: %w", folder, err)
	}
	space := st.Bavail * uint64(st.Bsize) / 2
	kept := sample[:0]
	for _, c := range sample {
		if res.Bytes+c.node.Size > space {
			res.PassedOver++
			continue
		}
		res.Files++
		res.Bytes += c.node.Size
		kept = append(kept, c)
	}
	return kept, nil
}

// one restores the files of one snapshot and compares them.
func one(ctx context.Context, r *repo.Repository, opt *Options, i int, files map[string]*chosen, to string,
	l *report.Ledger,
	res *Result,
) error {
	s := opt.Snapshots[i].Snapshot
	ways := map[string]bool{}
	for p := range files {
		for dir := path.Dir(p); !ways[dir]; dir = path.Dir(dir) {
			ways[dir] = true
		}
	}
	take := func(at string, typ tree.Type) (bool, bool) { return files[at] != nil, typ == tree.Dir && ways[at] }
	restored, err := restore.Run(ctx, r, restore.Selection{Tree: s.Tree, Take: take},
		restore.Target{Path: to, Verify: true, Gate: opt.Gate}, opt.Workers, l)
	if restored != nil {
		res.Damaged = append(res.Damaged, restored.Damaged...)
	}
	if err != nil {
		return err
	}
	if s.Host != opt.Host {
		return nil
	}
	for p, c := range files {
		same, err := compare(ctx, opt.Gate, filepath.Join(to, p), p, &c.node)
		switch { // one that changed, is not there, or cannot be read is proven by its hash
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errLive):
			l.Fail(p, "compare with "+p, err)
		case same:
			res.Live++
		}
	}
	return nil
}

// failures are the paths of the failures in a ledger. A file that is not restored fails again when it is verified, so
// failures are not files.
type failures map[string]bool

func newFailures(l *report.Ledger) failures {
	f := failures{}
	l.OnIssue(func(i report.Issue) {
		if !i.Remark {
			f[i.Path] = true
		}
	})
	return f
}

// among returns how many of the files failed, or lie in a directory that did, and begins again for the next snapshot.
// No restore runs meanwhile.
func (f failures) among(files map[string]*chosen) (n uint64) {
	for p := range files {
		for at := p; ; at = path.Dir(at) {
			if f[at] {
				n++
				break
			}
			if at == path.Dir(at) {
				break
			}
		}
	}
	clear(f)
	return n
}

// compare compares two files byte by byte, if the second is the one that the node describes from the beginning to the
// end.
func compare(ctx context.Context, gate localfs.Gates, restored, live string, n *tree.Node) (same bool, err error) {
	b, err := open(ctx, gate, live)
	if err != nil {
		return false, err
	}
	defer b.Close()
	if !b.Opened().Unchanged(n) {
		return false, nil
	}
	a, err := open(ctx, gate, restored)
	if err != nil {
		return false, err
	}
	defer a.Close()
	x, y := make([]byte, piece), make([]byte, piece)
	equal := true
	for off := uint64(0); off < n.Size && equal; off += piece {
		size := min(piece, n.Size-off)
		if err := errors.Join(whole(a, x[:size], off), whole(b, y[:size], off)); err != nil {
			return false, err
		}
		equal = bytes.Equal(x[:size], y[:size])
	}
	now, err := b.Stat()
	if err != nil || !now.Unchanged(n) {
		return false, err
	}
	if !equal {
		return false, errLive
	}
	return true, nil
}

func whole(f *localfs.File, p []byte, off uint64) error {
	n, err := f.ReadAt(p, int64(off))
	if n == len(p) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func open(ctx context.Context, gate localfs.Gates, at string) (*localfs.File, error) {
	dir, name := filepath.Split(at)
	d, err := localfs.IOContext{Ctx: ctx, Pass: gate.Pass(nil, dir)}.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Release()
	return d.OpenFile(name)
}

// remove removes the folder of the drill. Directories without the right to write are among what was restored.
func remove(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(folder, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove the restored files: %w; remove %s by hand", err, folder)
	}
	return nil
}
