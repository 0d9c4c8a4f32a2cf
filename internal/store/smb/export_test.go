package smb

// Settle waits for the background work of s, as far as it has begun. A sweep that has not begun
// will not begin.
func Settle(s *Store) {
	s.swept.Store(true)
	s.background.Wait()
}
