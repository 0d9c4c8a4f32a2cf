package smb

// Settle waits until s does nothing any more that nobody waits for, as far as it has begun. A sweep that has not begun
// will not begin.
func Settle(s *Store) {
	s.swept.Store(true)
	s.tidying.Wait()
}
