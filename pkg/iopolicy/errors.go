package iopolicy

import "errors"

var (
	// ErrPolicy: no policy has that name.
	ErrPolicy = errors.New("not an I/O policy")
	// ErrSetting: no setting has that name, or the value is not one it may have.
	ErrSetting = errors.New("not a setting of the I/O policy")
)
