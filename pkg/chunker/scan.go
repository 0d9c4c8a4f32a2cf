package chunker

// scan rolls hash over p and returns the number of bytes after which it was first below limit, and the hash there;
// 0 and the last hash if it never was.
//
// This is the inner loop of every backup. Rolled byte by byte, each step would wait for the shift and the addition of
// the one before. Two bytes at a time, h<<2 + (g0<<1 + g1), the sum in brackets is ready before h is, which halves the
// chain; the hash between the two is computed beside it.
func scan(gear *[256]uint64, p []byte, hash, limit uint64) (int, uint64) {
	i := 0
	for ; len(p)-i >= 8; i += 8 {
		b := (*[8]byte)(p[i:])
		g0, g1 := gear[b[0]], gear[b[1]]
		mid := hash<<1 + g0
		hash = hash<<2 + (g0<<1 + g1)
		if mid < limit {
			return i + 1, mid
		}
		if hash < limit {
			return i + 2, hash
		}
		g0, g1 = gear[b[2]], gear[b[3]]
		mid = hash<<1 + g0
		hash = hash<<2 + (g0<<1 + g1)
		if mid < limit {
			return i + 3, mid
		}
		if hash < limit {
			return i + 4, hash
		}
		g0, g1 = gear[b[4]], gear[b[5]]
		mid = hash<<1 + g0
		hash = hash<<2 + (g0<<1 + g1)
		if mid < limit {
			return i + 5, mid
		}
		if hash < limit {
			return i + 6, hash
		}
		g0, g1 = gear[b[6]], gear[b[7]]
		mid = hash<<1 + g0
		hash = hash<<2 + (g0<<1 + g1)
		if mid < limit {
			return i + 7, mid
		}
		if hash < limit {
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
