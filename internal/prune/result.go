package prune

import "github.com/tidemark-backup/tidemark/internal/repo/session"

// Amount is a number of packs and their bytes.
type Amount struct {
	Packs, Bytes uint64
}

// Add counts a pack.
func (a *Amount) Add(size uint64) { a.Packs, a.Bytes = a.Packs+1, a.Bytes+size }

// Drop subtracts a pack.
func (a *Amount) Drop(size uint64) { a.Packs, a.Bytes = a.Packs-1, a.Bytes-size }

// And returns the sum.
func (a Amount) And(b Amount) Amount { return Amount{a.Packs + b.Packs, a.Bytes + b.Bytes} }

// Result is the outcome of a prune. For a dry run it is the predicted outcome if no other writer runs at the same time.
// The numbers add up:
//
//	Before - Deleted = Kept;  Kept + Written = After;  Deleted - Written + Index = Freed
type Result struct {
	Counts
	Before    Amount // all packs, at the beginning
	Deleted   Amount // packs that were removed
	Written   Amount // packs that were written; a dry run estimates their bytes, but not their number
	Repacked  Amount // packs whose live blobs were repacked
	Marked    Amount // packs without live blobs that this prune has marked
	Pending   Amount // packs that are doomed and not removed yet
	Waiting   []session.Other
	Postponed bool // more packs are to be repacked than one round has space for
}

// Counts are the figures of a Result that are no amounts of packs.
type Counts struct {
	Snapshots uint64 `json:"snapshots"`         // traversed
	Index     int64  `json:"index_bytes_freed"` // index alone, packs and index; unknown in a dry run
	Freed     int64  `json:"bytes_freed"`       // negative if they grew
	Rewritten uint64 `json:"bytes_rewritten"`   // used data of repacked packs before compression
	Revived   uint64 `json:"packs_revived"`     // marked but needed
	Damaged   uint64 `json:"packs_damaged"`     // unreadable, kept
	Unused    uint64 `json:"bytes_unused"`      // unused data in packs that stay
	Extended  uint64 `json:"locks_extended"`    // files that stay locked for longer, one request for each
}

// Kept is the packs of the beginning that still exist.
func (r *Result) Kept() Amount {
	return Amount{r.Before.Packs - r.Deleted.Packs, r.Before.Bytes - r.Deleted.Bytes}
}

// After is the packs that exist at the end, except those that other writers stored meanwhile. In a dry run their number
// is unknown.
func (r *Result) After() Amount { return r.Kept().And(r.Written) }

// Then adds the result of the next prune.
func (r *Result) Then(next *Result) {
	before := *r
	*r = *next
	if before.Before.Packs > 0 {
		r.Before = before.Before
	}
	if next.Before.Packs == 0 { // it failed before its survey
		r.Snapshots, r.Unused = before.Snapshots, before.Unused
		r.Waiting, r.Pending = before.Waiting, before.Pending
	}
	r.Deleted, r.Repacked = r.Deleted.And(before.Deleted), r.Repacked.And(before.Repacked)
	r.Marked, r.Revived = r.Marked.And(before.Marked), r.Revived+before.Revived
	r.Written, r.Index = r.Written.And(before.Written), r.Index+before.Index
	r.Freed, r.Rewritten = r.Freed+before.Freed, r.Rewritten+before.Rewritten
	r.Damaged = max(r.Damaged, before.Damaged)
}
