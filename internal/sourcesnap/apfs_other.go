//go:build !darwin

package sourcesnap

func newAPFS() (Maker, error) { return nil, ErrSystem }
