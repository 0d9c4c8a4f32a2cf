package corpus

import "math/bits"

// dice is a random source that costs a few instructions: SplitMix64 (Steele, Lea and Flood, 2014). Sequences from
// different seeds are independent, so that every file can have its own.
type dice uint64

// throw returns the dice of something that is named by a few numbers.
func throw(parts ...uint64) dice {
	var d dice
	for _, p := range parts {
		d = dice(d.next() ^ p)
	}
	d.next()
	return d
}

func (d *dice) next() uint64 {
	*d += 0x9e37_79b9_7f4a_7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58_476d_1ce4_e5b9
	z = (z ^ z>>27) * 0x94d0_49bb_1331_11eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1. n is at least 1.
func (d *dice) below(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}

// fill makes bytes that do not compress.
func (d *dice) fill(p []byte) {
	for len(p) >= 8 {
		x := d.next()
		_ = p[7]
		p[0], p[1], p[2], p[3] = byte(x), byte(x>>8), byte(x>>16), byte(x>>24)
		p[4], p[5], p[6], p[7] = byte(x>>32), byte(x>>40), byte(x>>48), byte(x>>56)
		p = p[8:]
	}
	for i := range p {
		p[i] = byte(d.next())
	}
}

// spread returns a size around a mean, distributed like sizes of files: most are small, few are large. The factors are
// the 32 middle quantiles of a lognormal distribution with sigma 1.6, divided by their mean; between two of them all
// sizes are equally likely.
func (d *dice) spread(mean int64) int64 {
	factors := [...]int64{ // thousandths
		12, 26, 39, 53, 67, 83, 100, 119, 139, 161, 185, 213, 242, 276, 313, 355,
		403, 457, 518, 590, 673, 771, 888, 1030, 1205, 1428, 1720, 2120, 2705, 3654, 5523, 11865,
	}
	k := d.below(len(factors))
	low := factors[max(k-1, 0)]
	if k == 0 {
		low = 0
	}
	f := low + int64(d.below(int(factors[k]-low)))
	return mean*f/1000 + int64(d.below(int(mean/1000)+1))
}
