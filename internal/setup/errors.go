package setup

import "errors"

// ErrAnswers: the same question got too many answers without meaning.
var ErrAnswers = errors.New("no valid answer; run 'tidemark setup' again")
