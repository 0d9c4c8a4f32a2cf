// Package smb is a store on an SMB share of a NAS, a Windows machine or a Samba server, without a mount.
//
// # Sessions
//
// A Store keeps a few sessions, each with its own TCP connection, dialled on demand: an operation waits for the first
// only. A file is moved in pieces of at most 1 MiB, several of them in flight, which fills a line of 15 ms. A session
// ends as a whole when its connection breaks, when no byte moves on it for Patience.Request while an answer is due, or
// when the server has forgotten it. Its operations start again on another session, with growing waits, until
// Patience.Outage is over. Echo keeps an idle session alive.
//
// # Writing a file
//
// Put writes a temporary file in the folder of the destination (random name, created exclusively), flushes it, closes
// it, and renames it. Then it opens the file again, through another session if there is one, and flushes it once more:
// the first flush made the content durable, this one the name. Its size and its end are compared with what was sent
// (Options.Verify). A file that differs is removed and sent again, a few times. So the final name never shows a part of
// a file, unless the server lies about what it wrote, and that is detected before an index refers to the file. A pack
// whose verification was interrupted is removed again if the server can be reached.
//
// # Retries
//
// Every operation may be repeated. Each attempt of a Put has its own temporary name. A rename whose answer was lost
// is recognised by the content under the final name. A file that is missing when its removal is repeated was removed
// by the attempt before. PutNew creates a file exclusively under its final name, and Fence a folder. Whether an attempt
// whose answer was lost did so, the next one finds out: the file or the folder is there.
//
// A server that accepts connections and sends nothing is given up after Patience.Silence.
//
// # Temporary files
//
// Their names begin with store.TempPrefix, which no stored file's name can, so they are never listed. If one cannot be
// removed because the connection is gone, the same Store removes it later. Those of killed writers are removed beside
// the first pack of another Store, when they are ten minutes old by the server's clock: a server removes no file that
// its writer has open. A writer whose file is removed before it got its name sends it again. Files of package local,
// which are open only there, are removed after a day.
//
// # A target that goes away
//
// The folder that a NAS offers while its disk is missing must not be mistaken for the repository. Once the config file
// was seen, its absence turns every "no such file" into store.ErrGone, and no folder is created. The session that found
// nothing checks the config, because others may see another disk. If the config is there, the operation is repeated,
// since the disk may have come back in between. An empty folder is believed only beside the config.
//
// # The gate
//
// Every exchange with the server is an operation of the gate (package iopolicy). Opening and renaming take several
// requests in one operation. Reads and writes are cut to what the gate allows. Echo and the removal of a temporary file
// after a failed Put do not wait at the gate.
//
// # Requirements
//
// SMB 2.0.2 or later. Names are lower-case hexadecimal digits, so that case folding does not matter. No locks, leases
// or oplocks are used. A flush must reach the disk: Samba does that unless "strict sync" is off.
package smb
