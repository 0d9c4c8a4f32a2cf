package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/corpus"
)

// dataset describes the backed-up data.
type dataset struct {
	Name    string         `json:"name"`
	Objects int64          `json:"objects"`
	Bytes   int64          `json:"bytes"`
	Seed    uint64         `json:"seed,omitempty"`
	Scale   float64        `json:"scale,omitempty"`
	Change  *corpus.Change `json:"change,omitempty"` // of the last round
}

// data is a tree to back up.
type data struct {
	dataset
	root string
	set  *corpus.Set // nil: an existing tree, which has no next version
}

// prepare makes a data set, or scans the existing tree of that path.
func (s *settings) prepare(ctx context.Context, name string) (*data, error) {
	if !slices.Contains(corpus.Kinds(), name) {
		root, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if st, err := os.Stat(root); err != nil || !st.IsDir() {
			return nil, fmt.Errorf("%q is no folder, and no data set: those are %v", name, corpus.Kinds())
		}
		d := &data{dataset: dataset{Name: name}, root: root}
		d.Objects, d.Bytes, err = corpus.Count(root)
		return d, err
	}
	spec := corpus.Spec{Kind: name, Seed: s.seed, Scale: s.scale}
	if name == corpus.Source {
		spec.Roots = corpus.Roots(ctx)
	}
	start := time.Now()
	set, err := corpus.Make(ctx, filepath.Join(s.made, name), spec)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%s: %d objects, %.3f GB, version %d, in %.1f s\n",
		name, set.Objects, float64(set.Bytes)/1e9, set.Version, time.Since(start).Seconds())
	d := &data{root: set.Root(), set: set}
	d.dataset = dataset{Name: name, Objects: set.Objects, Bytes: set.Bytes, Seed: s.seed, Scale: s.scale}
	return d, nil
}

// next makes the next version.
func (d *data) next(ctx context.Context) error {
	c, err := d.set.Next(ctx)
	d.Objects, d.Bytes, d.Change = d.set.Objects, d.set.Bytes, &c
	return err
}
