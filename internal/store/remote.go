package store

import "context"

// Remote is a store on a server. Close it.
type Remote interface {
	Store
	// Describe describes the connection.
	Describe(ctx context.Context) (Link, error)
	// Scratch calls use with the name of a temporary place in the store, and removes it afterwards. open opens one next
	// to it as an empty store.
	Scratch(ctx context.Context, use func(name string, open func(name string) Store) error) error
	Close() error
}

// Link describes the connection to a server, for people who test a target.
type Link struct {
	Protocol string // "smb"
	Server   string // name or address
	Source   string // what the server has: "//nas/backup"
	What     string // one sentence
	Remedy   string // what to do about a weakness of the connection; "": it is good
	Durable  string // what an acknowledged write is worth: one sentence
	Advice   string // what to do about Durable; "": nothing
	// Conditional: that one of several writers gets a name rests on the server, not on its file system.
	Conditional bool
}
