package service

import "errors"

var (
	// ErrNoSystemd means that there is no systemd, or that it does not answer.
	ErrNoSystemd = errors.New("systemd is not available: run 'tidemark daemon --once' every few minutes by cron")
	// ErrForeign means that something else wrote the definition of the service.
	ErrForeign = errors.New("it was not written by 'tidemark service install': move it away first")
	// ErrPath means that a path cannot stand in the definition of the service.
	ErrPath  = errors.New("use an absolute path without control characters")
	errStops = errors.New("the service does not stop: try again when its step has ended")
	// ErrNoLaunchd means that launchd cannot be reached.
	ErrNoLaunchd = errors.New("launchd is not available")
)
