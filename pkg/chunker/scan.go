package chunker

import "encoding/binary"

// scan rolls hash over p and returns the number of bytes after which it was first below limit, and the hash there;
// 0 and the last hash if it never was.
//
// This is the inner loop of every backup, so it is unrolled by hand: one load for eight bytes, and one comparison each.
func scan(gear *[256]uint64, p []byte, hash, limit uint64) (int, uint64) {
	i := 0
	for ; len(p)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(p[i:])
		if hash = hash<<1 + gear[byte(w)]; hash < limit {
			return i + 1, hash
		}
		if hash = hash<<1 + gear[byte(w>>8)]; hash < limit {
			return i + 2, hash
		}
		if hash = hash<<1 + gear[byte(w>>16)]; hash < limit {
			return i + 3, hash
		}
		if hash = hash<<1 + gear[byte(w>>24)]; hash < limit {
			return i + 4, hash
		}
		if hash = hash<<1 + gear[byte(w>>32)]; hash < limit {
			return i + 5, hash
		}
		if hash = hash<<1 + gear[byte(w>>40)]; hash < limit {
			return i + 6, hash
		}
		if hash = hash<<1 + gear[byte(w>>48)]; hash < limit {
			return i + 7, hash
		}
		if hash = hash<<1 + gear[byte(w>>56)]; hash < limit {
			return i + 8, hash
		}
	}
	for ; i < len(p); i++ {
		if hash = hash<<1 + gear[p[i]]; hash < limit {
			return i + 1, hash
		}
	}
	return 0, hash
}
