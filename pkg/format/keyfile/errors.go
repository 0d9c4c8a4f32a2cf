package keyfile

import "errors"

var (
	// ErrWrongKey: the passphrase, key file or recovery key is not the one this slot was made with.
	ErrWrongKey = errors.New("wrong key: this passphrase, key file or recovery key does not open the repository")
	// ErrMistyped: a recovery key has a wrong length, a character that cannot occur, or a checksum that does not fit.
	ErrMistyped = errors.New("not a valid recovery key: compare it with the printed one, character by character")
	// ErrNotKeyFile: a text is not a whole, unchanged key file of tidemark.
	ErrNotKeyFile = errors.New("not a key file of tidemark, or a damaged one: use another copy of it")
)
