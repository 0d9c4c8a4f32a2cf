package tree

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

const second = 1_000_000_000 // nanoseconds

// maxNanosGap is the largest difference in seconds that is written in nanoseconds: its double fits 63 bits.
const maxNanosGap = 1 << 32

// TimeOf returns the moment of t.
func TimeOf(t time.Time) Time { return Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

// Std returns t as a time of the standard library.
func (t Time) Std() time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// Compare returns -1 if t is before u, 1 if it is after u, else 0.
func (t Time) Compare(u Time) int {
	if t.Sec != u.Sec {
		return cmp.Compare(t.Sec, u.Sec)
	}
	return cmp.Compare(t.Nsec, u.Nsec)
}

// normal returns t with its nanoseconds below a second, which file systems in user space may exceed.
func (t Time) normal() Time {
	if t.Nsec >= second {
		t.Sec += int64(t.Nsec / second)
		t.Nsec %= second
	}
	return t
}

// nanosFrom returns by how many nanoseconds t is after base, if they are not more than centuries apart.
func (t Time) nanosFrom(base Time) (nanos int64, ok bool) {
	gap := t.Sec - base.Sec
	if gap <= -maxNanosGap || gap >= maxNanosGap {
		return 0, false
	}
	return gap*second + int64(t.Nsec) - int64(base.Nsec), true
}

// addNanos is the inverse of nanosFrom.
func (t Time) addNanos(nanos int64) Time {
	t.Sec += nanos / second
	n := nanos%second + int64(t.Nsec)
	if n < 0 {
		t.Sec--
		n += second
	} else if n >= second {
		t.Sec++
		n -= second
	}
	t.Nsec = uint32(n)
	return t
}

// varintLen is the length of v as a varint.
func varintLen(v int64) int {
	return (bits.Len64(uint64(v<<1)^uint64(v>>63)|1) + 6) / 7
}

// appendFull appends t relative to base: the difference in seconds, which may wrap, and the nanoseconds.
func appendFull(dst []byte, t, base Time) []byte {
	return wire.AppendUint32(wire.AppendVarint(dst, t.Sec-base.Sec), t.Nsec)
}

func appendMod(dst []byte, t, prev Time) ([]byte, byte) {
	if t == prev {
		return dst, modSame
	}
	if t.Nsec == 0 {
		return wire.AppendVarint(dst, t.Sec-prev.Sec), modSeconds
	}
	if d, ok := t.nanosFrom(prev); ok && varintLen(d) <= varintLen(t.Sec-prev.Sec)+4 {
		return wire.AppendVarint(dst, d), modNanos
	}
	return appendFull(dst, t, prev), modFull
}

// appendNear appends t as nanoseconds after the nearer of two bases, or in full relative to the first. The form is 0, 1
// or 2 in this order.
func appendNear(dst []byte, t, first, second Time) ([]byte, byte) {
	d1, ok1 := t.nanosFrom(first)
	d2, ok2 := t.nanosFrom(second)
	if ok2 && (!ok1 || varintLen(d2) < varintLen(d1)) {
		return wire.AppendVarint(dst, d2), 1
	}
	if ok1 {
		return wire.AppendVarint(dst, d1), 0
	}
	return appendFull(dst, t, first), 2
}

func appendChanged(dst []byte, t, mod, prev Time) ([]byte, byte) {
	if t == mod {
		return dst, changedMod
	}
	dst, form := appendNear(dst, t, mod, prev)
	return dst, changedNanos + form
}

func appendBorn(dst []byte, t, changed, mod, prev Time) ([]byte, byte) {
	switch t {
	case changed:
		return dst, bornChanged
	case mod:
		return dst, bornMod
	}
	dst, form := appendNear(dst, t, changed, prev)
	return dst, bornNanos + form
}

// readFull reads the encoding of appendFull.
func readFull(r *wire.Reader, base Time) Time {
	t := Time{Sec: base.Sec + r.Varint(), Nsec: r.Uint32()}
	if t.Nsec >= second {
		r.Fail("%d nanoseconds", t.Nsec)
	}
	return t
}

func readMod(r *wire.Reader, form byte, prev Time) Time {
	switch form {
	case modSame:
		return prev
	case modSeconds:
		return Time{Sec: prev.Sec + r.Varint()}
	case modNanos:
		return prev.addNanos(r.Varint())
	default:
		return readFull(r, prev)
	}
}

func readChanged(r *wire.Reader, form byte, mod, prev Time) Time {
	switch form {
	case changedMod:
		return mod
	case changedNanos:
		return mod.addNanos(r.Varint())
	case changedPrev:
		return prev.addNanos(r.Varint())
	default:
		return readFull(r, mod)
	}
}

func readBorn(r *wire.Reader, form byte, changed, mod, prev Time) Time {
	switch form {
	case bornChanged:
		return changed
	case bornMod:
		return mod
	case bornNanos:
		return changed.addNanos(r.Varint())
	case bornPrev:
		return prev.addNanos(r.Varint())
	default:
		return readFull(r, changed)
	}
}
