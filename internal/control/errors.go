package control

import "errors"

var (
	// ErrDirectory: others can enter the directory of the sockets, or it is not ours, or no directory.
	ErrDirectory = errors.New("not a safe place for control sockets")
	// ErrRefused: the job has understood the request and does not do it, or has not understood it.
	ErrRefused = errors.New("the job refused")
	// ErrAnswer: what came back is no answer of this protocol.
	ErrAnswer = errors.New("the job does not answer as it should")
	// ErrGone: the job has ended.
	ErrGone = errors.New("the job has ended")
	// errSyntax: a line is too long, or no JSON.
	errSyntax = errors.New("malformed line")
	// errStranger: the other end belongs to another user.
	errStranger = errors.New("the other end belongs to another user")
)
