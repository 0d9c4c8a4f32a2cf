//go:build !linux

package ring

// Ring is not available on this system.
type Ring struct{}

// New returns ErrMissing.
func New(int) (*Ring, error) { return nil, ErrMissing }

func (r *Ring) Close() error { return nil }

// Read makes none of the reads.
func (r *Ring) Read(_ []byte, reads []Read) {
	for i := range reads {
		reads[i].N, reads[i].Err = 0, ErrUnread
	}
}
