// Package prune gives back the room of what no snapshot needs any more, while others go on writing. docs/prune.md has the
// proof that nothing is lost.
//
//	leases, marks ─► survey ─► sweep what earlier marks condemned ─► plan ─► repack ─► mark ─► survey again ─► sweep
//	                 all snapshots followed,                                 by an ordinary     only if no writer is
//	                 each blob found                                         session            left that has not seen it
//
// It believes nothing but the target: which pack holds a blob is read from the index there, and that the packs are there
// from a listing; the local cache only helps to read trees. If a snapshot cannot be followed to its end, or a blob cannot
// be found, nothing is removed.
//
// In memory are about 100 bytes for each pack and two bits for each blob; places of blobs are in a temporary file.
//
// The package refuses to know which snapshots should be kept: that is the business of forget.
package prune
