// Package sftp is a store in a folder of a machine with SSH.
//
// # The connection
//
// The system's ssh program connects, so that its configuration, agents and hardware keys count. It authenticates once;
// up to four or more SFTP channels share the connection. A channel is a process on the server that executes one request
// after the other: a flush delays what was sent after it on the same channel. See line, channel and pool.
//
//	Store -> pool -> channel -> ssh -s sftp -> socket -> ssh in the background -> server
//
// # Files
//
// A file is written under a temporary name, read back (its size and its last 64 KiB), flushed (fsync@openssh.com), and
// renamed (posix-rename@openssh.com). Its folder is flushed too: a folder opens for reading as a file does, at least
// with the server of OpenSSH. Servers that cannot flush are used, and Describe says so.
//
// # Names that only one writer gets
//
// PutNew makes a hard link to the complete temporary file (hardlink@openssh.com), which fails if the name is taken. On
// a server or a file system without hard links it renames as the first version of the protocol does: OpenSSH then looks
// and renames, so two writers at the same moment can both succeed. A fence is an empty folder, as in package local. The
// protocol has no status for a name that is taken; after a failure the store looks at the name.
//
// # The gate
//
// Each request that is waited for is an operation of the gate; those for a file's content are one operation in pieces
// of what the gate allows. The removal of temporary files does not wait.
package sftp
