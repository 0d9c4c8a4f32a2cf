package control

import "errors"

var (
	// ErrDirectory: the path is not a directory, or other users own or can enter it.
	ErrDirectory = errors.New("not a safe place for control sockets")
	// ErrAnswer: the answer is invalid, or missing.
	ErrAnswer = errors.New("it does not answer as it should")
	// ErrLate: no answer came in time; a request may be obeyed later.
	ErrLate = errors.New("no answer came")
	// ErrGone: the job has ended.
	ErrGone = errors.New("the job has ended")
	// ErrNoDaemon: no service of this user listens.
	ErrNoDaemon = errors.New("the service is not running; start it with 'tidemark daemon', or see 'tidemark service'")
	// errSyntax: a line is too long, or not JSON.
	errSyntax = errors.New("malformed line")
)
