// Package service attacks the real service from outside, as a person, a machine or a disk can: a source that vanishes,
// is emptied, shrinks or cannot be read; a repository that is away or damaged; a webhook that is down; an option file
// that is cut off; kill -9 and SIGSTOP. After each attack it compares what status, notifications, healthcheck, metrics,
// record and exit codes show with what is true. What is true is found without them: by a restore of the snapshot.
//
//	go test ./internal/test/service -soak 3h -timeout 4h
package service
