package restore

import (
	"path"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// small is a regular file in a plain directory with a single chunk, or with its content in the tree. Most files are
// small, so the struct is compact and allocated in blocks.
type small struct {
	dir      *dir
	name     string
	inline   string // content without a chunk; a copy, since the original would keep a whole tree page alive
	xattrs   []tree.Xattr
	access   *tree.Time
	sec      int64 // modification time
	nsec     uint32
	mode     uint32
	uid, gid uint32
}

// smallCost is the memory of a small file and its name, in bytes.
const smallCost = 96 + 32

// smallFiles allocates small files in blocks, which do not move.
type smallFiles struct {
	blocks [][]small
	used   int // blocks in use
}

const smallBlock = 512

func (s *smallFiles) add(f small) *small {
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

// reset forgets all files and keeps the blocks.
func (s *smallFiles) reset() {
	for i := range s.blocks[:s.used] {
		clear(s.blocks[i])
		s.blocks[i] = s.blocks[i][:0]
	}
	s.used = 0
}

func (s *small) path() string { return path.Join(s.dir.path, s.name) }

// isSmall reports whether n can be restored as a small file of d.
func (j *job) isSmall(d *dir, n *tree.Node) bool {
	if n.Type != tree.File || !d.plain || n.Links > 1 || localfs.Late(n) || n.Outcome >= tree.Skipped {
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

// addSmall adds n, a small file of d, to the batch, which has space.
func (w *walker) addSmall(d *dir, n *tree.Node) {
	d.addEntry()
	s := w.batch.smalls.add(small{
		dir: d, name: n.Name, inline: string(n.Content.Inline), xattrs: n.Xattrs, access: n.Access,
		sec: n.ModTime.Sec, nsec: n.ModTime.Nsec, mode: n.Mode, uid: n.UID, gid: n.GID,
	})
	p := chunk{To: destination{small: s}}
	if len(n.Content.Chunks) == 1 {
		p.ID, p.Len = n.Content.Chunks[0].ID, uint32(n.Size)
	}
	w.batch.chunks = append(w.batch.chunks, p)
	w.batch.cost += smallCost + chunkCost
}

// makeSmall makes the file s with verified content.
func (w *worker) makeSmall(s *small, content []byte) {
	w.node = tree.Node{
		Name: s.name, Type: tree.File, Mode: s.mode, UID: s.uid, GID: s.gid, Links: 1, Size: uint64(len(content)),
		ModTime: tree.Time{Sec: s.sec, Nsec: s.nsec}, Access: s.access, Xattrs: s.xattrs,
	}
	ps, err := w.makeSmallIn(s, content)
	if err != nil {
		w.failSmall(s, err)
		return
	}
	w.ledger.Bytes.Restored.Add(uint64(len(content)))
	w.ledger.Bytes.Written.Add(uint64(len(content)))
	w.ledger.Objects.Restored.Add(1)
	if len(ps) > 0 {
		w.noteProblems(s.path(), ps)
	}
	w.entryDone(s.dir)
}

func (w *worker) makeSmallIn(s *small, content []byte) ([]localfs.Problem, error) {
	in, err := w.handles.get(s.dir)
	if err != nil {
		return nil, err
	}
	defer in.Release()
	name := s.name
	if w.keepsUnread() {
		name = tempName(name)
	}
	made, ps, err := w.maker.File(in, name, content, &w.node)
	err = appeared(err)
	if err == nil && name != s.name {
		err = nameNew(in, in, name, s.name)
	}
	if err == nil {
		return ps, nil
	}
	if made {
		w.removePartial(partialFile{s.dir, name}, nil)
	}
	return nil, err
}

// failSmall finishes a small file that cannot be made.
func (j *job) failSmall(s *small, err error) {
	j.failRestore(s.path(), "restore", err)
	j.entryDone(s.dir)
}
