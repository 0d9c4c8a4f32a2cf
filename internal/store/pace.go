package store

import "context"

// Direction is the direction in which the bytes of a file flow.
type Direction uint8

// The directions, as seen from this machine.
const (
	Upload Direction = iota
	Download
)

// Pacer limits how fast bytes flow. Its methods are safe for concurrent use.
type Pacer interface {
	// Piece returns the most bytes to move at once; 0: any number.
	Piece(d Direction) int
	// Moved records n bytes that were moved and sleeps until the next piece is due. It returns the cause of ctx if that
	// ends before.
	Moved(ctx context.Context, d Direction, n int) error
}

// WithPacer returns a context whose operations are paced by p. A store that moves a file in pieces passes each of them
// to Paced; for other stores the caller does so after the operation.
func WithPacer(ctx context.Context, p Pacer) context.Context {
	return context.WithValue(ctx, pacer, p)
}

// PieceOf returns the smaller of most and the piece of the pacer of ctx.
func PieceOf(ctx context.Context, d Direction, most int) int {
	if p, ok := ctx.Value(pacer).(Pacer); ok {
		if piece := p.Piece(d); piece > 0 {
			return min(piece, most)
		}
	}
	return most
}

// Paced passes n moved bytes to the pacer of ctx, which may sleep. It is called outside the I/O gate.
func Paced(ctx context.Context, d Direction, n int) error {
	if p, ok := ctx.Value(pacer).(Pacer); ok && n > 0 {
		return p.Moved(ctx, d, n)
	}
	return nil
}
