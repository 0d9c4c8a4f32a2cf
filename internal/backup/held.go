package backup

import (
	"strings"

	"github.com/tidemark-backup/tidemark/internal/backup/scan"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// amount is what the new tree holds below a directory, or of a source. Directories are counted as they finish, each
// with what its subdirectories hold, so that counting takes no other walk and no look into the trees.
type amount struct {
	snapshot.Count
	failed    uint64 // as in snapshot.Held
	rewritten uint64 // files whose content differs from the parent's
	fresh     uint64 // files that the parent does not have; links and devices, too
	unread    uint64 // files whose content the parent has, and that could not be read
}

func (a *amount) add(b *amount) {
	a.Files += b.Files
	a.Bytes += b.Bytes
	a.failed += b.failed
	a.rewritten += b.rewritten
	a.fresh += b.fresh
	a.unread += b.unread
}

// drop takes out an entry that the new tree does not hold.
func (a *amount) drop(typ tree.Type, size uint64) {
	if typ == tree.Dir {
		return
	}
	a.Files--
	if typ == tree.File {
		a.Bytes -= size
	}
}

// place is a source in the tree of the snapshot, or a directory on the path to one.
type place struct {
	below  map[string]*place
	source bool
	found  bool
	link   bool  // of a source: it is a symbolic link
	differ bool  // of a source: it is not what the parent has
	err    error // why nothing of it could be read; of a directory on the path: nor of the sources below it
	amount amount
}

// at returns the place of a name below p; nil: no source lies there. A nil p has none.
func (p *place) at(name string) *place {
	if p == nil {
		return nil
	}
	return p.below[name]
}

// fail notes why nothing could be read of the sources at and below p.
func (p *place) fail(err error) {
	p.err = err
	for _, c := range p.below {
		c.fail(err)
	}
}

// child is like at, and makes the place.
func (p *place) child(name string) *place {
	if p.below[name] == nil {
		if p.below == nil {
			p.below = map[string]*place{}
		}
		p.below[name] = &place{}
	}
	return p.below[name]
}

// places finds where the sources lie in the snapshot: also those that are part of another source. Its second result
// has one for each of the absolute paths; nil: root does not lead there.
func places(root *scan.SourceTree, sources []string) (top *place, each []*place) {
	top, each = &place{}, make([]*place, len(sources))
	var visit func(at *place, s *scan.SourceTree)
	visit = func(at *place, s *scan.SourceTree) {
		for _, c := range s.Children {
			visit(at.child(c.Name), c)
		}
		if s.Children != nil {
			return
		}
		for i, source := range sources {
			rest, within := strings.CutPrefix(source+"/", strings.TrimSuffix(s.Path, "/")+"/")
			if !within || each[i] != nil {
				continue
			}
			each[i] = at
			for name := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
				if name != "" {
					each[i] = each[i].child(name)
				}
			}
			each[i].source = true
		}
	}
	if root != nil {
		visit(top, root)
	}
	return top, each
}

// count counts what a directory holds before its tree is made. The finisher takes out what the tree does not hold.
func (j *dirWork) count() {
	j.held.Files += j.compared.Files
	j.held.Bytes += j.compared.Bytes
	if !j.dir.Picked {
		j.held.failed += uint64(j.dir.Missed)
	}
	for i := range j.children {
		j.held.add(&j.children[i].held)
	}
	if j.place == nil || len(j.place.below) == 0 {
		return
	}
	for i := range j.dir.Entries { // sources that are no directories
		e := &j.dir.Entries[i]
		if p := j.place.at(e.Name); p != nil && p.source && e.Type != tree.Dir {
			p.found, p.amount.Files = true, 1
			switch e.Type {
			case tree.File:
				p.amount.Bytes = e.Size
			case tree.Symlink:
				p.link = true
			}
		}
	}
}

// counted notes at a place what its directory holds.
func (j *dirWork) counted() {
	if j.place != nil {
		j.place.found, j.place.amount = !j.gone, j.held
	}
}
