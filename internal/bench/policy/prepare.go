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

// findPeers finds those of the other tools that a part compares with, as far as they are installed.
func (b *bench) findPeers() {
	peers, missing := rig.Peers()
	wanted := func(tool string) bool {
		return slices.Contains(b.costSettings.beside, tool) || b.wants(partCurve) && tool == "restic"
	}
	b.peers = slices.DeleteFunc(peers, func(c rig.Candidate) bool { return !wanted(c.Tool) })
	for _, tool := range missing {
		if wanted(tool) {
			b.problem("%s is not installed and left out", tool)
		}
	}
}

// prepare makes the data of all parts on the disk: the source, the file of the foreground, and an empty repository for
// each tool.
func (b *bench) prepare(ctx context.Context) error {
	b.findPeers()
	if err := rig.Filler(1).File(b.disk.At("foreground"), rig.ForegroundSize); err != nil {
		return err
	}
	if err := os.MkdirAll(b.disk.At("template"), 0o700); err != nil {
		return err
	}
	if err := b.disk.Templates(ctx, append([]rig.Candidate{b.tidemark("off")}, b.peers...)); err != nil {
		return err
	}
	b.makeCandidates(ctx)
	if err := b.prepareSource(ctx); err != nil {
		return err
	}
	return b.disk.Settle(ctx, true)
}
