package restore

import (
	"path"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/restore/temp"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// small is a regular file in a plain directory that is made in one go: its content is one chunk, or lies in the tree. Most
// files are such, so it is kept short, and many of them in one piece of memory.
type small struct {
	dir      *dir
	name     string
	inline   string // its content, if it is not in a chunk; copied, as it would hold a whole page of the tree
	xattrs   []tree.Xattr
	access   *tree.Time
	sec      int64 // modification time
	nsec     uint32
	mode     uint32
	uid, gid uint32
}

// smallWeight is what a small file and its name take, in bytes.
const smallWeight = 96 + 32

// smalls are many, in blocks that stay where they are.
type smalls struct {
	blocks [][]small
	used   int // blocks
}

const smallBlock = 512

func (s *smalls) add(f small) *small {
	if s.used == 0 || len(s.blocks[s.used-1]) == smallBlock {
		if s.used == len(s.blocks) {
			s.blocks = append(s.blocks, make([]small, 0, smallBlock))
		}
		s.used++
	}
	b := &s.blocks[s.used-1]
	*b = append(*b, f)
	return &(*b)[len(*b)-1]
}

// reset forgets them, and keeps the blocks.
func (s *smalls) reset() {
	for i := range s.blocks[:s.used] {
		clear(s.blocks[i])
		s.blocks[i] = s.blocks[i][:0]
	}
	s.used = 0
}

func (s *small) path() string { return path.Join(s.dir.path, s.name) }

// isSmall reports whether n, a file with one name in d, can be made in one go.
func (j *job) isSmall(d *dir, n *tree.Node) bool {
	if !d.plain || j.to.DryRun || n.Links > 1 || n.Flags != 0 || n.Outcome >= tree.Skipped {
		return false
	}
	switch c := &n.Content; {
	case !c.List.IsZero() || len(c.Chunks) > 1:
		return false
	case len(c.Chunks) == 1:
		return !c.Chunks[0].IsHole() && c.Chunks[0].Len == n.Size
	default:
		return uint64(len(c.Inline)) == n.Size
	}
}

// plan puts n into the window, which has room, as a small file of d.
func (w *walker) plan(d *dir, n *tree.Node) {
	d.begin()
	w.owned(n)
	s := w.window.smalls.add(small{
		dir: d, name: n.Name, inline: string(n.Content.Inline), xattrs: n.Xattrs, access: n.Access,
		sec: n.ModTime.Sec, nsec: n.ModTime.Nsec, mode: n.Mode, uid: n.UID, gid: n.GID,
	})
	p := piece{To: owner{small: s}}
	if len(n.Content.Chunks) == 1 {
		p.ID, p.Len = n.Content.Chunks[0].ID, uint32(n.Size)
	}
	w.window.pieces = append(w.window.pieces, p)
	w.window.weight += smallWeight + pieceWeight
}

// make makes the file s with verified content.
func (w *worker) make(s *small, content []byte) {
	w.node = tree.Node{
		Name: s.name, Type: tree.File, Mode: s.mode, UID: s.uid, GID: s.gid, Links: 1, Size: uint64(len(content)),
		ModTime: tree.Time{Sec: s.sec, Nsec: s.nsec}, Access: s.access, Xattrs: s.xattrs,
	}
	ps, err := w.makeIn(s, content)
	if err != nil {
		w.lose(s, err)
		return
	}
	w.ledger.Bytes.Restored.Add(uint64(len(content)))
	w.ledger.Objects.Restored.Add(1)
	if len(ps) > 0 {
		w.problems(s.path(), ps)
	}
	w.end(s.dir)
}

func (w *worker) makeIn(s *small, content []byte) ([]localfs.Problem, error) {
	in, err := w.handles.get(s.dir)
	if err != nil {
		return nil, err
	}
	defer in.Release()
	name := s.name
	if w.trusting() {
		name = temp.Name(name)
	}
	made, ps, err := w.maker.File(in, name, content, &w.node)
	err = appeared(err)
	if err == nil && name != s.name {
		err = s.dir.rename(in, name, s.name, false)
	}
	if err == nil {
		return ps, nil
	}
	if made {
		w.remove(leftover{s.dir, name}, nil)
	}
	return nil, err
}

// lose ends a small file that cannot be made.
func (j *job) lose(s *small, err error) {
	j.failed(s.path(), "restore", err)
	j.end(s.dir)
}
