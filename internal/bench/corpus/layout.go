package corpus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sync/errgroup"
)

const (
	deepest    = 9  // folders above one another
	perProject = 48 // folders of one project, on average
	mostCommon = 12 // how many folders back the parent of the next one usually is
	wholeTree  = 40 // files of a folder, on average, before they are fitted to how many there shall be
)

// folder is one directory of a generated tree.
type folder struct {
	parent  int // -1: the top
	depth   int
	name    string
	project uint64
	first   int // its first file
	files   int
}

// layout is a tree of folders with a number of files each: few in most, many in a few, as in home directories.
type layout []folder

// newLayout makes a tree of so many folders and files.
func newLayout(seed uint64, w *writer, folders, files int) layout {
	l := make(layout, folders)
	children := make([]int, folders+1)
	weights, sum := make([]int, folders), 0
	d := throw(seed, 0x6c61_796f)
	for i := range l {
		parent := -1
		switch back := 1 + d.below(mostCommon); {
		case i == 0 || d.below(400) == 0:
		case d.below(3) > 0 && back <= i && l[i-back].depth < deepest:
			parent = i - back
		default:
			if parent = d.below(i); l[parent].depth >= deepest {
				parent = l[parent].parent
			}
		}
		l[i] = folder{parent: parent, project: d.next()}
		if parent >= 0 {
			l[i].depth = l[parent].depth + 1
			if d.below(perProject) > 0 {
				l[i].project = l[parent].project
			}
		}
		l[i].name = w.words[d.below(vocabulary)]
		if k := children[parent+1]; k > 0 {
			l[i].name += strconv.FormatInt(int64(k), 36)
		}
		children[parent+1]++
		weights[i] = d.below(1 + d.below(wholeTree))
		switch d.below(40) {
		case 0:
			weights[i] += d.below(20 * wholeTree)
		case 1, 2, 3:
			weights[i] = 0 // holds folders only
		}
		sum += weights[i]
	}
	weights[0] += max(0, 1-sum)
	sum = max(sum, 1)
	before := 0
	for i := range l {
		l[i].first = before * files / sum
		before += weights[i]
		l[i].files = before*files/sum - l[i].first
	}
	return l
}

// paths returns the path of every folder below root.
func (l layout) paths(root string) []string {
	out := make([]string, len(l))
	for i, f := range l {
		above := root
		if f.parent >= 0 {
			above = out[f.parent]
		}
		out[i] = filepath.Join(above, f.name)
	}
	return out
}

// make makes the folders.
func (l layout) make(paths []string) error {
	for _, path := range paths {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for every folder, from several goroutines with a hand each. Folders of one project mostly follow one
// another.
func (l layout) each(ctx context.Context, w *writer, do func(h *hand, i int) error) error {
	const stretch = 64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for from := 0; from < len(l); from += stretch {
		g.Go(func() error {
			h := &hand{writer: w}
			for i := from; i < min(from+stretch, len(l)); i++ {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := do(h, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// hand is what one goroutine writes with.
type hand struct {
	*writer
	buf []byte
}

// write writes a file of n bytes that next appends to a buffer, a piece at a time.
func (h *hand) write(path string, n int64, next func(p []byte, piece, n int) []byte) error {
	const most = 256 << 10
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	for piece := 0; n > 0; piece++ {
		size := min(n, most)
		h.buf = next(h.buf[:0], piece, int(size))
		if _, err := f.Write(h.buf); err != nil {
			_ = f.Close()
			return fmt.Errorf("write %s: %w", path, err)
		}
		n -= size
	}
	return f.Close()
}

// name returns the name of the k-th file of a folder.
func (w *writer) name(d *dice, k int, ending string) string {
	name := w.words[d.below(vocabulary)]
	if d.below(2) == 0 {
		name += "_" + w.words[d.below(vocabulary)]
	}
	return name + strconv.FormatInt(int64(k), 36) + ending
}

// textEnding returns the ending of a file of text.
func textEnding(d *dice) string {
	endings := [...]string{
		".go", ".go", ".c", ".h", ".h", ".py", ".js", ".ts", ".json", ".json", ".yaml", ".md", ".txt", ".conf",
		".html", ".rs",
	}
	return endings[d.below(len(endings))]
}
