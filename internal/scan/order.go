package scan

// position is a thing to be sorted, by a number that stands for it.
type position struct {
	key   uint64
	index uint32
}

// few is how many positions are sorted by insertion; larger runs are made by merging.
const few = 12

// inOrder sorts positions by their keys; those of equal keys keep their order. What it returns lies in the memory of p or
// of spare, and the other of them is returned too, to be spare the next time. A walk sorts each directory twice, and this
// takes half of the time that slices.SortFunc does, which calls a function for each comparison.
func inOrder(p, spare []position) (sorted, free []position) {
	if isSorted(p) {
		return p, spare
	}
	for from := 0; from < len(p); from += few {
		insert(p[from:min(from+few, len(p))])
	}
	if len(p) > few && cap(spare) < len(p) {
		spare = make([]position, cap(p))
	}
	for run := few; run < len(p); run *= 2 {
		spare = spare[:len(p)]
		for from := 0; from < len(p); from += 2 * run {
			half, end := min(from+run, len(p)), min(from+2*run, len(p))
			merge(spare[from:end], p[from:half], p[half:end])
		}
		p, spare = spare, p
	}
	return p, spare
}

func isSorted(p []position) bool {
	for i := 1; i < len(p); i++ {
		if p[i].key < p[i-1].key {
			return false
		}
	}
	return true
}

func insert(p []position) {
	for i := 1; i < len(p); i++ {
		x := p[i]
		j := i
		for ; j > 0 && x.key < p[j-1].key; j-- {
			p[j] = p[j-1]
		}
		p[j] = x
	}
}

// merge makes one sorted run of two.
func merge(to, a, b []position) {
	for len(a) > 0 && len(b) > 0 {
		if b[0].key < a[0].key {
			to[0], b = b[0], b[1:]
		} else {
			to[0], a = a[0], a[1:]
		}
		to = to[1:]
	}
	copy(to[copy(to, a):], b)
}
