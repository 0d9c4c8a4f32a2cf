// Package session keeps connections to an SMB server: it dials, logs on, opens the share, notices when a connection is of
// no use any more, and explains why there is none. It refuses to know files, and to try anything again.
//
// The context of a caller never reaches the protocol library, which loses track of a connection on which a request was
// cancelled. A request ends with its answer or with its session; a watch ends the session when nothing moves on it.
package session
