package main

import (
	"context"
	"os"
	"slices"
)

// wants reports whether one of some measurements is to be made.
func (b *bench) wants(numbers ...int) bool {
	return len(b.only) == 0 || slices.ContainsFunc(numbers, func(n int) bool { return slices.Contains(b.only, n) })
}

// prepare makes what the measurements need on the disk: the source in two halves, many small files, the file of the
// foreground, and an empty repository for each tool.
func (b *bench) prepare(ctx context.Context) error {
	b.candidates = b.all()
	if !b.wants(idleNumber, besideNumber) {
		b.candidates = b.candidates[:4] // tidemark only
	}
	b.say("making the source")
	if err := filler(1).file(b.disk.at("foreground"), foregroundSize); err != nil {
		return err
	}
	if b.wants(idleNumber, besideNumber, floorNumber, turnsNumber, alarmsNumber, sensorNumber, pairNumber) {
		for i, half := range []string{"a", "b"} {
			if err := filler(uint64(2+i)).tree(ctx, b.disk.at("source", half), b.size/2); err != nil {
				return err
			}
		}
	}
	if b.wants(warmNumber) {
		if err := filler(9).files(ctx, b.disk.at("many"), b.files, 2<<10); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.disk.at("template"), 0o700); err != nil {
		return err
	}
	if err := b.templates(ctx); err != nil {
		return err
	}
	return b.disk.settle(ctx, true)
}
