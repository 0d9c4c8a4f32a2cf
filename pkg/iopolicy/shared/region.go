package shared

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

const (
	magic    = "TMIOPEER"
	version  = 1
	slots    = 64 // one bit of a word for each
	headSize = 128
	fileSize = int(unsafe.Sizeof(region{}))
	slotsAt  = int64(unsafe.Offsetof(region{}.slots))
	stride   = int64(unsafe.Sizeof(slot{}))
)

// Kinds of a slot.
const (
	free = iota
	gate // a process with a gate, which holds the lock
	// another process, by one that holds the lock: the slot cannot be reassigned while its announcer may change it
	announced
	bound // another process, as long as that is alive
)

// region is the file in memory; see doc.go.
type region struct {
	head  [headSize]byte // read from the file only, never through the mapping
	edge  [iopolicy.Tiers]edge
	turn  atomic.Int64
	start [iopolicy.Tiers]atomic.Int64
	want  [iopolicy.Tiers]atomic.Int64
	_     [56]byte
	used  atomic.Uint64
	_     [120]byte

	slots [slots]slot
}

// edge has a cache line of its own, since tiers usually belong to different processes.
type edge struct {
	atomic.Int64
	_ [56]byte
}

// slot is the state of one process.
type slot struct {
	generation atomic.Uint64
	pid        atomic.Int64
	started    atomic.Int64
	kind       atomic.Uint64
	read       atomic.Uint64
	written    atomic.Uint64
	_          [2]uint64
	inflight   [iopolicy.Tiers]atomic.Int64
	_          [4]uint64
}

// owner identifies the owner of a slot.
type owner struct {
	pid, started int64
	kind         uint64
	policy       iopolicy.Policy
	generation   uint64
}

// write assigns p to o.
func (p *slot) write(o owner) {
	g := p.generation.Load() | 1
	p.generation.Store(g)
	for t := range p.inflight {
		p.inflight[t].Store(0)
	}
	p.read.Store(0)
	p.written.Store(0)
	p.pid.Store(o.pid)
	p.started.Store(o.started)
	p.kind.Store(o.kind | uint64(o.policy)<<8)
	p.generation.Store(g + 1)
}

// owner returns the owner of p; ok is false while it changes.
func (p *slot) owner() (o owner, ok bool) {
	g := p.generation.Load()
	o = owner{pid: p.pid.Load(), started: p.started.Load(), generation: g}
	word := p.kind.Load()
	o.kind, o.policy = word&255, iopolicy.Policy(word>>8)
	return o, g&1 == 0 && g == p.generation.Load() && o.kind != free && word>>8 <= uint64(iopolicy.Passive) &&
		o.pid > 0 && o.pid <= math.MaxInt32
}

// setPolicy changes only the policy.
func (p *slot) setPolicy(to iopolicy.Policy) {
	p.kind.Store(p.kind.Load()&255 | uint64(to)<<8)
}

// header returns the first bytes of the file of a key since a boot.
func header(key, boot string) (out [headSize]byte) {
	copy(out[:], magic)
	binary.NativeEndian.PutUint64(out[8:], version)
	binary.NativeEndian.PutUint64(out[16:], uint64(fileSize))
	bootSum, keySum := sha256.Sum256([]byte(boot)), sha256.Sum256([]byte(key))
	copy(out[24:], bootSum[:])
	copy(out[56:], keySum[:])
	return out
}

// fileName returns a readable name that is safe on any file system and different for each key.
func fileName(key string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '@', r == '-', r == '.':
			return r
		}
		return '_'
	}, key)
	if len(plain) > 40 {
		plain = plain[:40]
	}
	if plain = strings.TrimLeft(plain, ".-"); plain == "" {
		plain = "device"
	}
	sum := sha256.Sum256([]byte(key))
	return plain + "-" + hex.EncodeToString(sum[:8]) + ".v1"
}
