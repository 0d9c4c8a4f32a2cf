package session

import (
	"sync"
	"sync/atomic"

	"github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// question holds the buffers of one index lookup by Claim. Claim is called once per batch of files, so the buffers are
// pooled.
type question struct {
	ask   []format.ID
	at    []int // index of each in the caller's list
	found []index.Found
}

// claimShards spreads the claims over locks: far more than workers, so that two workers rarely contend.
const claimShards = 64

// claimState is the state of a blob that this session stores.
type claimState uint8

const (
	claimed  claimState = iota + 1 // will be stored; leaves the map when the index has it
	kept                           // like claimed, but permanent: the index has it in a doomed pack
	keptDone                       // kept, stored and indexed
)

// claims holds the blobs that were claimed and are not yet in the index. It grows with the data under way, not with
// the data stored.
type claims struct {
	shards [claimShards]struct {
		sync.Mutex
		blobs map[format.ID]claimState
	}
	open atomic.Int64 // claimed and not yet in an index segment
}

func newClaims() *claims {
	c := &claims{}
	for i := range c.shards {
		c.shards[i].blobs = make(map[format.ID]claimState)
	}
	return c
}

// IDs are hashes under a secret key, so their first byte spreads evenly.
func shardOf(id format.ID) int { return int(id[0]) % claimShards }

// add claims id and reports whether it was unclaimed.
func (c *claims) add(id format.ID) bool {
	s := &c.shards[shardOf(id)]
	s.Lock()
	defer s.Unlock()
	if _, found := s.blobs[id]; found {
		return false
	}
	s.blobs[id] = claimed
	c.open.Add(1)
	return true
}

// drop withdraws a claim: the index has the blob.
func (c *claims) drop(id format.ID) {
	s := &c.shards[shardOf(id)]
	s.Lock()
	defer s.Unlock()
	delete(s.blobs, id)
	c.open.Add(-1)
}

// keep makes a claim outlive the merge of its segment.
func (c *claims) keep(id format.ID) {
	s := &c.shards[shardOf(id)]
	s.Lock()
	defer s.Unlock()
	s.blobs[id] = kept
}

// stored ends the claim on a blob that an index segment names and the index has merged.
func (c *claims) stored(id format.ID) {
	s := &c.shards[shardOf(id)]
	s.Lock()
	defer s.Unlock()
	switch s.blobs[id] {
	case claimed:
		delete(s.blobs, id)
	case kept:
		s.blobs[id] = keptDone
	default: // written without a claim
		return
	}
	c.open.Add(-1)
}
