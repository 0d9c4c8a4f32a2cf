// Package tally is what a prune did, in numbers that add up:
//
//	Before - Deleted = Kept;  Kept + Written = After;  Deleted - Written + Index = Freed
//
// It refuses to know how any of that came about.
package tally

import "github.com/tidemark-backup/tidemark/internal/repo/session"

// Amount is a number of packs and their bytes.
type Amount struct {
	Packs, Bytes uint64
}

// Add counts a pack.
func (a *Amount) Add(size uint64) { a.Packs, a.Bytes = a.Packs+1, a.Bytes+size }

// Drop counts a pack no more.
func (a *Amount) Drop(size uint64) { a.Packs, a.Bytes = a.Packs-1, a.Bytes-size }

// And is both.
func (a Amount) And(b Amount) Amount { return Amount{a.Packs + b.Packs, a.Bytes + b.Bytes} }

// Result is what a prune did. Of a dry run, it is what it would do, if no other writer came in between.
type Result struct {
	Snapshots uint64 // that were followed
	Before    Amount // all packs, at the beginning
	Deleted   Amount // packs that are not there any more
	Written   Amount // packs that were written; a dry run estimates their bytes, and knows no number
	Index     int64  // bytes by which the index is smaller; a dry run does not know
	Freed     int64  // bytes by which packs and index are smaller: Deleted less Written, and Index
	Repacked  Amount // packs whose live blobs were written anew
	Rewritten uint64 // bytes of those blobs
	Condemned Amount // packs that this prune has found to be not needed
	Pending   Amount // packs that are condemned and not removed yet
	Held      uint64 // packs that are condemned and stay, because the index cannot be written without them yet
	Pardoned  uint64 // packs that were condemned, and are needed after all
	Unused    uint64 // bytes that nothing needs, in packs that stay
	Damaged   uint64 // packs that could not be read and stay
	Waiting   []session.Other
	Settling  bool // a mark is too young
}

// Kept is the packs that were there at the beginning and are still.
func (r *Result) Kept() Amount {
	return Amount{r.Before.Packs - r.Deleted.Packs, r.Before.Bytes - r.Deleted.Bytes}
}

// After is the packs that are there at the end, but for what others wrote meanwhile. A dry run does not know their number.
func (r *Result) After() Amount { return r.Kept().And(r.Written) }

// Then adds what was done next.
func (r *Result) Then(next *Result) {
	before := *r
	*r = *next
	if before.Before.Packs > 0 {
		r.Before = before.Before
	}
	if next.Before.Packs == 0 { // it did not come so far as to look
		r.Snapshots, r.Held, r.Unused = before.Snapshots, before.Held, before.Unused
		r.Waiting, r.Settling, r.Pending = before.Waiting, before.Settling, before.Pending
	}
	r.Deleted, r.Repacked = r.Deleted.And(before.Deleted), r.Repacked.And(before.Repacked)
	r.Condemned, r.Pardoned = r.Condemned.And(before.Condemned), r.Pardoned+before.Pardoned
	r.Written, r.Index = r.Written.And(before.Written), r.Index+before.Index
	r.Freed, r.Rewritten = r.Freed+before.Freed, r.Rewritten+before.Rewritten
	r.Damaged = max(r.Damaged, before.Damaged)
}
