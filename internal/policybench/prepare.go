package main

import (
	"context"
	"os"
	"slices"

	"github.com/tidemark-backup/tidemark/internal/policybench/rig"
)

// wants reports whether one of some measurements is to be made.
func (b *bench) wants(numbers ...int) bool {
	return len(b.only) == 0 || slices.ContainsFunc(numbers, func(n int) bool { return slices.Contains(b.only, n) })
}

// tidemark is a candidate under a policy, on the medium of this run.
func (b *bench) tidemark(policy string, more ...string) rig.Candidate {
	return rig.Tidemark(b.program, policy, b.medium, more...)
}

// all returns tidemark under its policies, and the other tools as far as they are installed.
func (b *bench) all() []rig.Candidate {
	list := []rig.Candidate{b.tidemark("off"), b.tidemark("important"), b.tidemark("utility"), b.tidemark("throttle")}
	peers, missing := rig.Peers()
	for _, tool := range missing {
		b.problem("%s is not installed and left out", tool)
	}
	return append(list, peers...)
}

// prepare makes what the measurements need on the disk: the source in two halves, many small files, the file of the
// foreground, and an empty repository for each tool.
func (b *bench) prepare(ctx context.Context) error {
	b.candidates = b.all()
	if !b.wants(idleNumber, besideNumber) {
		b.candidates = b.candidates[:4] // tidemark only
	}
	b.say("making the source")
	if err := rig.Filler(1).File(b.disk.At("foreground"), rig.ForegroundSize); err != nil {
		return err
	}
	if b.wants(idleNumber, besideNumber, floorNumber, turnsNumber, alarmsNumber, sensorNumber, pairNumber) {
		for i, half := range []string{"a", "b"} {
			if err := rig.Filler(uint64(2+i)).Tree(ctx, b.disk.At("source", half), b.size/2); err != nil {
				return err
			}
		}
	}
	if b.wants(warmNumber) {
		if err := rig.Filler(9).Files(ctx, b.disk.At("many"), b.files, 2<<10); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.disk.At("template"), 0o700); err != nil {
		return err
	}
	if err := b.disk.Templates(ctx, b.candidates); err != nil {
		return err
	}
	return b.disk.Settle(ctx, true)
}
