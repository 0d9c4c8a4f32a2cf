package backup

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/backup/compare"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Each source has a parent of its own: the newest snapshot of this host that contains its path, as a source or below
// one. If that is one snapshot of exactly these sources, its tree is the one compared with. Otherwise a tree is made in
// memory that holds the node of each source from its parent, and nothing beside them:
//
//	/home of 3f1c ─┐
//	/srv of 90ab ──┴─► tree pages in memory ─► compare, save (which store no page of an old tree)

// parentTries limits the snapshots in which one source is looked up: a path below a source may be in none of them,
// because rules exclude it.
const parentTries = 8

// parents are the snapshots compared with.
type parents struct {
	compare.Parent
	from []repo.Listed // the newest first; empty: none
	load tree.Load
}

// origin is the parent of one source.
type origin struct {
	snapshot repo.Listed
	nodes    []*tree.Node // from the root of its tree to the source
}

// namedParent returns the snapshot that the user chose, or nil.
func (job *Job) namedParent(ctx context.Context, r *repo.Repository) (*repo.Listed, error) {
	if job.Parent == "" || job.Source.Comparing.Force || job.Stdin != nil {
		return nil, nil
	}
	found, err := r.FindSnapshot(ctx, job.Parent, repo.Filter{Hosts: []string{job.Label.Host}})
	if err != nil {
		return nil, fmt.Errorf("choose parent: %w", err)
	}
	return &found, nil
}

// parentFilter reports whether a session may reuse the trees of a snapshot.
type parentFilter = func(format.ID, *snapshot.Snapshot) bool

// parents returns the parents of the sources, and those of the listed snapshots whose trees the session may reuse. The
// others were forgotten since they were listed, so that their packs may be removed, or may need packs that a prune
// removes.
func (job *Job) parents(ctx context.Context, r *repo.Repository, s *repo.Session, h *history,
	filter *begun[parentFilter], known *damage, l *report.Ledger,
) ([]repo.Listed, *parents, error) {
	reliable, err := filter.result()
	if err != nil {
		return nil, nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(h.listed), func(one repo.Listed) bool {
		return one.Snapshot == nil || !reliable(one.ID, one.Snapshot)
	})
	p := &parents{load: r.LoadBlob}
	if job.Stdin != nil {
		return rest, p, nil
	}
	if job.Source.Comparing.Force { // no parent, but about as much as last time
		if before := last(h.listed, job.of); before != nil {
			expect(l, before)
		}
		return rest, p, nil
	}
	best := h.named
	if best == nil {
		best = last(h.listed, job.coversAny)
	}
	refused := best != nil && !reliable(best.ID, best.Snapshot)
	if refused {
		l.Note("", "compare", fmt.Errorf("snapshot %s is not used as parent: it was removed just now, a prune has not "+
			"checked it yet, or its writer did not renew its lease in time before it was published", best.ID.Short()))
	}
	switch {
	case h.named != nil && !refused:
		p.whole(*h.named)
	case h.named == nil:
		err = job.chooseParents(ctx, r, rest, p, known.evidence != nil, l)
	}
	p.Damaged = p.damaged(s, known)
	if !p.ID.IsZero() {
		expect(l, &p.from[0])
	}
	return rest, p, err
}

// expect makes what a snapshot holds the estimate of what there is.
func expect(l *report.Ledger, before *repo.Listed) {
	c := &before.Snapshot.Stats.Content
	l.Expect(report.Expected{Objects: c.Files + c.Dirs + c.Others, Bytes: c.Bytes})
}

// chooseParents selects the parent of each source from snapshots that may be relied on. With damaged set, a parent
// whose tree cannot be read is not used; otherwise that ends the pass.
func (job *Job) chooseParents(ctx context.Context, r *repo.Repository, reliable []repo.Listed, p *parents, damaged bool,
	l *report.Ledger,
) error {
	if newest := last(reliable, job.coversAny); newest != nil && job.of(*newest) {
		p.whole(*newest)
		return nil
	}
	origins := map[*Pick]*origin{}
	err := job.Source.Root.Each(func(source *Pick) error {
		found, err := job.originOf(ctx, r, reliable, source.Path, false)
		if source.First = err == nil && found == nil; source.First {
			found, err = job.originOf(ctx, r, reliable, source.Path, true)
		}
		if err != nil && compare.Damaged(err) {
			err = fmt.Errorf("find the parent of %s: %w: %w", source.Path, compare.ErrOldTree, err)
			if damaged {
				l.Note(source.Path, "compare", err)
				return nil
			}
		}
		if found != nil {
			origins[source] = found
		}
		return err
	})
	job.Source.Root.SpreadFirst()
	if err != nil || len(origins) == 0 {
		return err
	}
	return p.merge(r, job.Source.Root, reliable, origins)
}

// originOf returns the parent of a source among whole or partial snapshots; nil: it has none.
func (job *Job) originOf(ctx context.Context, r *repo.Repository, reliable []repo.Listed, source string, partial bool,
) (*origin, error) {
	tries := 0
	for _, l := range slices.Backward(reliable) {
		if l.Snapshot.Partial != partial || !job.covers(l, source) {
			continue
		}
		nodes, err := tree.Follow(ctx, r.LoadBlob, l.Snapshot.Tree, source)
		if err != nil {
			return nil, err
		}
		if nodes != nil {
			return &origin{l, nodes}, nil
		}
		if tries++; tries == parentTries {
			break
		}
	}
	return nil, nil
}

// whole makes one snapshot the parent of all sources.
func (p *parents) whole(l repo.Listed) {
	p.from = []repo.Listed{l}
	p.ID, p.Tree, p.Start = l.ID, l.Snapshot.Tree, l.Snapshot.Start
}

// merge makes the tree that holds the nodes of the sources.
func (p *parents) merge(r *repo.Repository, root *Pick, reliable []repo.Listed, origins map[*Pick]*origin) error {
	for _, l := range slices.Backward(reliable) {
		for _, o := range origins {
			if o.snapshot.ID == l.ID {
				p.from = append(p.from, l)
				p.Partial = p.Partial || l.Snapshot.Partial
				break
			}
		}
	}
	pages := map[format.ID][]byte{}
	p.load = func(ctx context.Context, id format.ID) ([]byte, error) {
		if page, ok := pages[id]; ok {
			return page, nil
		}
		return r.LoadBlob(ctx, id)
	}
	hasher := r.Keys().Hasher()
	m := merger{origins, map[string]tree.Time{}, func(page []byte) (format.ID, error) {
		id := hasher.ID(page)
		pages[id] = slices.Clone(page)
		return id, nil
	}}
	top, _, err := m.node(root, 0)
	if top != nil {
		p.Tree, p.Start, p.Starts = top.Subtree, p.from[0].Snapshot.Start, m.starts
	}
	return err
}

// damaged reports whether the parents may need lost blobs.
func (p *parents) damaged(s *repo.Session, known *damage) bool {
	return known.evidence != nil || slices.ContainsFunc(p.from, func(l repo.Listed) bool { return s.Suspect(l.Snapshot) })
}

// merger makes the tree of several parents.
type merger struct {
	origins map[*Pick]*origin
	starts  map[string]tree.Time
	emit    tree.Emit
}

// node returns the node of a source, or of a directory on the path to sources; nil: none of them has a parent. The
// attributes of such a directory are those in the parent of its first source.
func (m *merger) node(pick *Pick, depth int) (*tree.Node, *origin, error) {
	from, subtree := m.origins[pick], format.ID{}
	if pick.Children != nil {
		b := tree.NewBuilder(m.emit)
		b.Reset()
		for _, c := range pick.Children {
			n, o, err := m.node(c, depth+1)
			if n != nil {
				err = b.Add(n)
			}
			if err != nil {
				return nil, nil, err
			}
			if from == nil {
				from = o
			}
		}
		var err error
		if subtree, err = b.Finish(); err != nil {
			return nil, nil, err
		}
	}
	if from == nil {
		return nil, nil, nil
	}
	n := *from.nodes[depth]
	if pick.Children != nil {
		n.Subtree = subtree
	}
	m.starts[pick.Path] = from.snapshot.Snapshot.Start
	return &n, from, nil
}

// newest returns the ID of the newest parent that is whole, zero if there is none.
func (p *parents) newest() format.ID {
	for _, l := range p.from {
		if !l.Snapshot.Partial {
			return l.ID
		}
	}
	return format.ID{}
}

// same reports whether one of the parents has what was found of the sources, and was made with this option file.
// Folders above the sources do not count.
func (p *parents) same(found *result, sn *snapshot.Snapshot) bool {
	differ := slices.ContainsFunc(found.found, func(at *place) bool { return at == nil || at.differ || !at.found })
	return slices.ContainsFunc(p.from, func(l repo.Listed) bool {
		return l.Snapshot.Setup == sn.Setup && !l.Snapshot.Partial && (l.Snapshot.Tree == found.tree ||
			!differ && len(p.from) == 1 && len(found.found) > 0 && sameSources(l.Snapshot.Sources, sn.Sources))
	})
}

// last returns the last snapshot that is wanted, or nil.
func last(listed []repo.Listed, wanted func(repo.Listed) bool) *repo.Listed {
	for _, l := range slices.Backward(listed) {
		if wanted(l) {
			return &l
		}
	}
	return nil
}

// of reports whether a snapshot has the job's host and sources.
func (job *Job) of(l repo.Listed) bool {
	return l.Snapshot != nil && l.Snapshot.Host == job.Label.Host && sameSources(l.Snapshot.Sources, job.Label.Sources) &&
		!slices.ContainsFunc(l.Snapshot.Held, func(h snapshot.Held) bool { return h.Doubted() && h.Files == 0 })
}

// covers reports whether a snapshot of the job's host has a path as a source or below one. A source that was missing or
// empty then is not compared with.
func (job *Job) covers(l repo.Listed, path string) bool {
	if l.Snapshot == nil || l.Snapshot.Host != job.Label.Host {
		return false
	}
	if h, known := l.Snapshot.HeldOf(path); known {
		return !h.Doubted() || h.Files > 0
	}
	return slices.ContainsFunc(l.Snapshot.Sources, func(source string) bool { return snapshot.Within(path, source) })
}

// coversAny reports whether a whole snapshot covers a source of the job.
func (job *Job) coversAny(l repo.Listed) bool {
	return l.Snapshot != nil && !l.Snapshot.Partial &&
		slices.ContainsFunc(job.Label.Sources, func(source string) bool { return job.covers(l, source) })
}

// first reports whether a source, unless it is missing, is in no whole snapshot of this host.
func (job *Job) first(listed []repo.Listed) bool {
	return slices.ContainsFunc(job.Label.Sources, func(source string) bool {
		return job.Source.Absent[source] == nil &&
			!slices.ContainsFunc(listed, func(l repo.Listed) bool {
				return l.Snapshot != nil && !l.Snapshot.Partial && job.covers(l, source)
			})
	})
}

func sameSources(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
