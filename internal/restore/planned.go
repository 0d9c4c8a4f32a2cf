package restore

import (
	"context"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Actions of a dry run.
const (
	actionRestore = "restore"
	actionReplace = "replace"
	actionUpdate  = "update"
	actionLeave   = "leave"
	actionDelete  = "delete"
)

// Reasons for them.
const (
	reasonMissing = "it is not there"
	reasonSame    = "it is the same"
	reasonRule    = "--overwrite leaves what is there"
	reasonLink    = "it is another name of a file"
	reasonExtra   = "it is not in the snapshot"
)

// planned reports what the run would do with an object.
func (j *job) planned(path, what, why string) {
	if !j.to.DryRun || j.sel.Planned == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sel.Planned(path, what, why)
}

// reasonDiffers returns how an existing object with status st differs from n.
func reasonDiffers(n *tree.Node, st *localfs.Stat) string {
	switch {
	case st.Type != n.Type:
		return "something of another type is there"
	case n.Type == tree.File && st.Size != n.Size:
		return "its size differs"
	case st.Links > max(n.Links, 1):
		return "it has more names than in the snapshot"
	case n.Type == tree.File:
		return "its content differs, or its metadata and other names share it"
	}
	return "it is another one"
}

func reasonMetadata(differ metadataParts) string {
	return strings.Join(differ.names(), ", ") + " differ"
}

// countDryRun counts a file that the run would write, without its holes.
func (w *walker) countDryRun(ctx context.Context, f *file, what, why string) error {
	if w.survey != nil {
		return nil // the chunk lists are not needed
	}
	n := &f.node
	data := uint64(len(n.Content.Inline))
	err := eachChunk(ctx, w.repo.LoadBlob, &n.Content, func(c tree.Chunk, _ uint64) error {
		if !c.IsHole() {
			data += c.Len
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.ledger.Objects.Restored.Add(1)
	w.ledger.Bytes.Restored.Add(n.Size)
	w.ledger.Bytes.Written.Add(data)
	w.planned(f.path, what, why)
	return nil
}
