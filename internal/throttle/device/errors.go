package device

import "errors"

// ErrNumber: a device number does not identify a device.
var ErrNumber = errors.New("the number identifies no device")
