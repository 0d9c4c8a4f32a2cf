package policy

import (
	"context"
	"os"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/bench/rig"
)

// tidemark is a candidate under a policy, on the medium of this run.
func (b *bench) tidemark(policy string, more ...string) rig.Candidate {
	return rig.Tidemark(b.program, policy, b.medium, more...)
}

// all returns tidemark under its policies and, for the measurements that compare them, the other tools as far as they
// are installed.
func (b *bench) all() []rig.Candidate {
	list := []rig.Candidate{b.tidemark("off"), b.tidemark("important"), b.tidemark("utility"), b.tidemark("throttle")}
	peers, missing := rig.Peers()
	wanted := func(tool string) bool {
		return b.wants(partIdle) || slices.Contains(b.costSettings.beside, tool) || b.wants(partCurve) && tool == "restic"
	}
	b.peers = slices.DeleteFunc(peers, func(c rig.Candidate) bool {
		return !wanted(c.Tool)
	})
	for _, tool := range missing {
		if wanted(tool) {
			b.problem("%s is not installed and left out", tool)
		}
	}
	return append(list, b.peers...)
}

// prepare makes the data of all parts on the disk: sources, the file of the foreground, and an empty repository for
// each tool.
func (b *bench) prepare(ctx context.Context) error {
	b.candidates = b.all()
	b.say("making the source")
	if err := rig.Filler(1).File(b.disk.At("foreground"), rig.ForegroundSize); err != nil {
		return err
	}
	if b.wants(partIdle, partPair) {
		for i, half := range []string{"a", "b"} {
			if err := rig.Filler(uint64(2+i)).Tree(ctx, b.disk.At("source", half), b.size/2); err != nil {
				return err
			}
		}
	}
	if err := os.MkdirAll(b.disk.At("template"), 0o700); err != nil {
		return err
	}
	if err := b.disk.Templates(ctx, b.candidates); err != nil {
		return err
	}
	if b.wants(partTurns, partMixed, partCost, partCurve) {
		b.makeCandidates(ctx)
		if err := b.prepareSource(ctx); err != nil {
			return err
		}
	}
	return b.disk.Settle(ctx, true)
}
