package writerlock

import "errors"

var errIrregular = errors.New("not a regular file")
