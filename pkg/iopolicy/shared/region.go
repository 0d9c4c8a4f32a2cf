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
	places   = 64 // one bit of a word for each
	headSize = 128
	fileSize = int(unsafe.Sizeof(region{}))
	placesAt = int64(unsafe.Offsetof(region{}.places))
	stride   = int64(unsafe.Sizeof(place{}))
)

// Manners of a slot.
const (
	free      = iota
	gate      // of a process with a gate, which holds its lock
	announced // for another process, by one that holds its lock
	bound     // for another process, as long as that lives
)

// region is the file in memory, as doc.go has it.
type region struct {
	head  [headSize]byte // read from the file only, never through the mapping
	edge  [iopolicy.Tiers]edge
	turn  atomic.Int64
	start [iopolicy.Tiers]atomic.Int64
	want  [iopolicy.Tiers]atomic.Int64
	_     [56]byte
	used  atomic.Uint64
	_     [120]byte

	places [places]place
}

// edge has a cache line of its own: tiers are of different processes as a rule.
type edge struct {
	atomic.Int64
	_ [56]byte
}

// place is a slot for one process.
type place struct {
	generation atomic.Uint64
	pid        atomic.Int64
	started    atomic.Int64
	manner     atomic.Uint64
	read       atomic.Uint64
	written    atomic.Uint64
	_          [2]uint64
	inflight   [iopolicy.Tiers]atomic.Int64
	_          [4]uint64
}

// owner is what identifies who a place belongs to.
type owner struct {
	pid, started int64
	manner       uint64
	policy       iopolicy.Policy
	generation   uint64
}

// write gives p to o.
func (p *place) write(o owner) {
	g := p.generation.Load() | 1
	p.generation.Store(g)
	for t := range p.inflight {
		p.inflight[t].Store(0)
	}
	p.read.Store(0)
	p.written.Store(0)
	p.pid.Store(o.pid)
	p.started.Store(o.started)
	p.manner.Store(o.manner | uint64(o.policy)<<8)
	p.generation.Store(g + 1)
}

// owner returns whose p is; ok is false while it changes hands.
func (p *place) owner() (o owner, ok bool) {
	g := p.generation.Load()
	o = owner{pid: p.pid.Load(), started: p.started.Load(), generation: g}
	word := p.manner.Load()
	o.manner, o.policy = word&255, iopolicy.Policy(word>>8)
	return o, g&1 == 0 && g == p.generation.Load() && o.manner != free && word>>8 <= uint64(iopolicy.Passive) && o.pid > 0 && o.pid <= math.MaxInt32
}

// setPolicy changes only the policy.
func (p *place) setPolicy(to iopolicy.Policy) {
	p.manner.Store(p.manner.Load()&255 | uint64(to)<<8)
}

// header returns what the file of a key begins with since a boot.
func header(key, boot string) (out [headSize]byte) {
	copy(out[:], magic)
	binary.NativeEndian.PutUint64(out[8:], version)
	binary.NativeEndian.PutUint64(out[16:], uint64(fileSize))
	bootSum, keySum := sha256.Sum256([]byte(boot)), sha256.Sum256([]byte(key))
	copy(out[24:], bootSum[:])
	copy(out[56:], keySum[:])
	return out
}

// fileName returns a name that is safe on any file system, different for each key, and tells a person which it is.
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
