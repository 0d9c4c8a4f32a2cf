// Package prune removes the packs that no snapshot needs, while other writers run. docs/adr/0012-prune.md has the proof
// that nothing is lost.
//
//	leases, marks ─► survey ─► sweep packs of earlier marks ─► plan ─► mark ─► repack ─► mark ─► second survey ─► sweep
//	                 all snapshots followed,              what nothing    by an    the rest  new snapshots followed,
//	                 each blob located                    needs           ordinary           each blob located again;
//	                                                                      session            only when every running
//	                                                                                         writer acknowledges it
//
// A prune takes its facts from the target: the index there says which pack holds a blob, and a listing which packs
// exist. The local cache only speeds up the reading of trees. If a snapshot cannot be followed to its end, or a blob is
// in no pack, nothing is removed. What takes the place of a pack is read before the pack is removed (prover).
//
// In memory are about 100 bytes for each pack and two bits for each blob. The places of blobs are in a temporary file.
package prune
