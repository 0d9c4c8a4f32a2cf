package view

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Fresh is how old the listing of snapshots may be when something looks at it. While nothing does, it is not renewed.
const Fresh = 30 * time.Second

// nameLayout names a snapshot by its time here. It has no colon, which other programs take for the end of a host name.
const nameLayout = "2006-01-02_15-04-05"

// Repository is the tree of all snapshots: the link latest, and the folders snapshots, hosts and tags.
type Repository struct {
	trees *Trees
	list  func(context.Context) ([]repo.Listed, error)
	now   func() time.Time

	mu      sync.Mutex
	listed  time.Time
	folders map[string]*names // by path; "" is the root
}

// NewRepository returns the tree of the snapshots that list returns, oldest first and all of them readable. list is
// called when something looks at the tree and the last listing is older than Fresh by the clock now.
func NewRepository(
	load tree.Load, list func(context.Context) ([]repo.Listed, error), now func() time.Time,
) *Repository {
	r := &Repository{trees: NewTrees(load), list: list, now: now, folders: make(map[string]*names)}
	r.folder("")
	return r
}

// Root returns the root folder with its entry.
func (r *Repository) Root() Entry {
	return Entry{Inode: inode("name", ""), Node: directory(""), Folder: r.folders[""], Moves: true}
}

// names is a folder that exists in the view only. A name keeps its number when it goes and comes back. A link that gets
// another target is another object with another number, so a caller may keep the target of a number. The old one stays,
// without a name.
type names struct {
	of      *Repository
	path    string
	numbers map[string]uint64
	entries []*Entry // by number; nil: gone
}

func (f *names) Find(ctx context.Context, name string) (Entry, error) {
	if err := f.of.refresh(ctx); err != nil {
		return Entry{}, err
	}
	f.of.mu.Lock()
	number, ok := f.numbers[name]
	f.of.mu.Unlock()
	if !ok {
		return Entry{}, ErrAbsent
	}
	return f.Entry(ctx, number)
}

func (f *names) Entry(_ context.Context, number uint64) (Entry, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if number >= uint64(len(f.entries)) || f.entries[number] == nil {
		return Entry{}, ErrAbsent
	}
	return *f.entries[number], nil
}

func (f *names) List(ctx context.Context, from uint64, visit func(Entry) bool) error {
	if from == 0 {
		if err := f.of.refresh(ctx); err != nil {
			return err
		}
	}
	f.of.mu.Lock()
	var named []Entry
	for ; from < uint64(len(f.entries)); from++ {
		if e := f.entries[from]; e != nil && f.numbers[e.Node.Name] == from {
			named = append(named, *e)
		}
	}
	f.of.mu.Unlock()
	for _, e := range named {
		if !visit(e) {
			return nil
		}
	}
	return nil
}

// refresh lists the snapshots if the listing is old. It fails only before the first success: an old listing is better
// than none where the target is away.
func (r *Repository) refresh(ctx context.Context) error {
	r.mu.Lock()
	now := r.now()
	first, old := r.listed.IsZero(), now.Sub(r.listed) > Fresh
	if old && !first {
		r.listed = now // one caller asks, others go on with what there is
	}
	r.mu.Unlock()
	if !old {
		return nil
	}
	all, err := r.list(ctx)
	if err != nil {
		if first {
			return err
		}
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = now
	r.arrange(all)
	return nil
}

// arrange makes the names of a listing.
func (r *Repository) arrange(all []repo.Listed) {
	whole := map[string]bool{} // groups whose latest is a whole one
	wanted := map[string]map[string]Entry{"": {}, "snapshots": {}, "hosts": {}, "tags": {}}
	link := func(in, name, target string) {
		if wanted[in] == nil {
			wanted[in] = map[string]Entry{}
		}
		wanted[in][name] = Entry{Node: &tree.Node{Type: tree.Symlink, Mode: 0o777, Links: 1, Target: target,
			Size: uint64(len(target))}}
	}
	for _, l := range all {
		s := l.Snapshot
		name := s.Time.Std().Local().Format(nameLayout)
		if _, taken := wanted["snapshots"][name]; taken {
			name += "_" + l.ID.Short()
		}
		root := directory("")
		root.Subtree, root.ModTime, root.Changed = s.Tree, s.Time, s.Time
		wanted["snapshots"][name] = r.trees.Root(l.ID, root)
		groups := []string{"", "hosts/" + plain(s.Host)}
		for _, tag := range s.Tags {
			groups = append(groups, "tags/"+plain(tag))
		}
		for _, group := range groups {
			target := strings.Repeat("../", strings.Count(group+"/", "/")) + "snapshots/" + name
			if group == "" {
				target = "snapshots/" + name
			} else {
				link(group, name, target)
			}
			if !s.Partial || !whole[group] {
				link(group, "latest", target)
				whole[group] = !s.Partial
			}
		}
	}
	for path := range wanted {
		if above, name := cutLast(path); path != "" {
			wanted[above][name] = Entry{Node: directory(name), Folder: r.folder(path)}
		}
	}
	for path := range r.folders {
		r.folders[path].set(wanted[path])
	}
}

// set replaces the entries. Names that stay keep their numbers.
func (f *names) set(wanted map[string]Entry) {
	gone := slices.Clone(f.entries)
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e := wanted[name]
		number, known := f.numbers[name]
		if !known || f.entries[number] != nil && f.entries[number].Node.Target != e.Node.Target {
			number = uint64(len(f.entries))
			f.numbers[name] = number
			f.entries = append(f.entries, nil)
		} else {
			gone[number] = nil
		}
		e.Number, e.Node.Name, e.Moves = number, name, true
		if e.Inode == 0 {
			e.Inode = inode("name", f.path, name, e.Node.Target)
		}
		f.entries[number] = &e
	}
	for number, e := range gone {
		switch {
		case e == nil:
		case e.Node.Target == "":
			f.entries[number] = nil
		case f.numbers[e.Node.Name] == uint64(number):
			delete(f.numbers, e.Node.Name)
		}
	}
}

func (r *Repository) folder(path string) *names {
	if r.folders[path] == nil {
		r.folders[path] = &names{of: r, path: path, numbers: make(map[string]uint64)}
	}
	return r.folders[path]
}

func directory(name string) *tree.Node {
	return &tree.Node{Name: name, Type: tree.Dir, Mode: 0o755, Links: 1}
}

// plain makes a host or a tag the name of a folder.
func plain(text string) string {
	text = strings.NewReplacer("/", "_", "\x00", "_").Replace(text)
	if text == "" || text == "." || text == ".." {
		return "_"
	}
	return text
}

// cutLast splits a path at its last slash.
func cutLast(path string) (above, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
