// Package session keeps connections to an SMB server: it dials, logs on, opens the share, detects dead connections and
// explains failures.
//
// The context of a caller never reaches the protocol library, which loses track of a connection on which a request was
// cancelled. A request ends with its answer or with its session; a watcher ends a session on which nothing moves.
package session
