//go:build !linux

package sourcesnap

func newBtrfs() (Maker, error) { return nil, ErrSystem }
