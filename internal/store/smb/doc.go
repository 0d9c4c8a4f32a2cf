// Package smb is a store on an SMB share, spoken to without a mount: on a NAS, a Windows machine, a Samba server. It
// knows sessions, requests and how to prove that a file arrived, and refuses to know what is inside.
//
// # Sessions
//
// A Store keeps a few sessions, each a TCP connection of its own, dialled when there is work for it. A file is moved in
// pieces of at most 1 MiB, several of them in flight at once, so that a line of 15 ms is filled. A session is given up as
// a whole, and never repaired, when its connection breaks, when no byte moved on it for Patience.Request while an answer
// was due, or when the server says that it forgot it. What was under way begins again on another session, with growing
// waits, until Patience.Outage is over. An idle session is kept alive by Echo.
//
// # How a file comes to be
//
// Put writes a temporary file in the folder of the destination (a random name, created exclusively), flushes it, closes
// it, and renames it over its final name. Then the file is opened again, through another session where there is one, and
// flushed once more: the first flush made its content durable, this one makes its name so, which a power cut of the server
// would otherwise take back. Its size and its end are compared with what was sent (Options.Verify). Only then Put returns.
// A file that is not what was sent is removed and sent again, a few times. So the final name never shows a part of a file,
// unless the server lies about what it wrote, and that is found before anybody relies on it. A pack whose proof was cut
// short is removed again, as far as the server can be reached.
//
// # What may be repeated
//
// Everything. Each attempt of a Put has a temporary name of its own. A rename whose answer was lost is recognised by what
// lies under the final name. A file that is missing when its removal is repeated was removed by the attempt before.
//
// # Temporary files
//
// Their names begin with TempPrefix, which no stored file's name can, so they are never listed. One that could not be
// removed because the connection was gone is removed later by the same Store; one whose writer was killed is removed by
// the first Put of another Store when it is more than a day old by the server's clock.
//
// # A target that goes away
//
// The folder a NAS offers while its disk is missing must not be mistaken for the repository: once the config file has
// been seen, its absence turns every "no such file" into store.ErrGone, and no folder is made. The session that missed
// something is asked for the config: others may see another disk. If it is there, what was missed is asked for again, since
// the disk may have come back in between; and a folder without any file is taken for empty only beside the config.
//
// # The gate
//
// Every exchange with the server is an operation of the gate (package iopolicy) and goes to another machine for certain.
// Opening and renaming are of several requests that make one operation. Reads and writes are cut to what the gate allows.
// Removing the temporary file of a Put that failed, and Echo, wait for nothing.
//
// # What it needs of a server
//
// SMB 2.0.2 or later. Names are lower-case hexadecimal digits, so that it does not matter whether the share folds case.
// No locks, leases or oplocks are used. A flush must reach the disk: Samba does that unless "strict sync" is off.
package smb
