package crew

import "sync/atomic"

// Allowance is a number of something that workers share and can do with less of: who gets none goes on with what they
// have.
type Allowance struct{ left atomic.Int64 }

// NewAllowance returns one of n.
func NewAllowance(n int) *Allowance {
	a := &Allowance{}
	a.Give(n)
	return a
}

// Take takes one, if there is one left.
func (a *Allowance) Take() bool {
	for {
		n := a.left.Load()
		if n <= 0 {
			return false
		}
		if a.left.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// Give gives n back.
func (a *Allowance) Give(n int) { a.left.Add(int64(n)) }
