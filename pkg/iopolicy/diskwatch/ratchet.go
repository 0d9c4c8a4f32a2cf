package diskwatch

// ratchet is a lower bound of a sum that counts only when it exceeds its maximum.
type ratchet struct{ most int64 }

// reset starts again at a bound.
func (r *ratchet) reset(to int64) { r.most = to }

// lift takes a new bound and returns by how much it exceeds all before.
func (r *ratchet) lift(low int64) int64 {
	by := max(0, low-r.most)
	r.most += by
	return by
}

// lower takes a bound that is proven to be all there is.
func (r *ratchet) lower(low int64) { r.most = min(r.most, low) }

// top returns the maximum.
func (r *ratchet) top() int64 { return r.most }
