// Package store is the second door: the byte container beneath a repository. It knows names and bytes and refuses to
// know what they mean. The contract has no rename and no lock, so that an object store can fulfil it as well.
package store

import (
	"context"
	"iter"
	"time"
)

// Kind is the family a stored file belongs to; each has a folder of its own.
type Kind uint8

// The kinds of stored files.
const (
	Config   Kind = iota + 1 // one file, named "config"
	Key                      // wrapped master keys
	Pack                     // frames; two-level fan-out
	Index                    // index segments
	Snapshot                 // snapshots
	Lease                    // the presence of writers; the only kind that is overwritten
	Mark                     // packs condemned by a prune, not yet deleted
)

// Name is the address of a stored file. ID is 1 to 64 lower-case hexadecimal digits, which is safe on shares that fold
// case; it is empty for Config.
type Name struct {
	Kind Kind
	ID   string
}

// Info is what a store tells of a file.
type Info struct {
	Name     Name
	Size     int64     // bytes
	Modified time.Time // by the clock of the target
}

// Store keeps files under names. Implementations are safe for concurrent use, and pass the suite in package storetest.
// A missing file is reported as an error that wraps ErrNotExist, a name that fails Name.Check as one that wraps ErrName,
// and a cancelled context as one that wraps its cause.
type Store interface {
	// Put stores data under name, all or nothing, and returns once it is durable. A file that already exists under
	// name is replaced atomically. data is not kept. A lease need only be there for others to see: where a crash ends
	// every writer it may be lost, or be empty.
	Put(ctx context.Context, name Name, data []byte) error
	// Get fills p from offset off of the file. A file that ends before p is full is ErrShort, and p then holds
	// nothing of meaning. An empty p asks only whether the file is there.
	Get(ctx context.Context, name Name, off int64, p []byte) error
	// Stat returns size and time of one file.
	Stat(ctx context.Context, name Name) (Info, error)
	// List yields every file of a kind, in no particular order. Foreign and temporary files are left out. A file that
	// is put or deleted while the list runs may or may not be in it; a caller that deletes what it lists collects
	// the names first. After an error the list has ended.
	List(ctx context.Context, kind Kind) iter.Seq2[Info, error]
	// Delete removes the file; removing what is not there is ErrNotExist. A later Put or Delete never becomes durable
	// before it, except that the removal of a pack, on whose absence nothing depends, may be lost in a crash, and that
	// of a lease in one that ends every writer.
	Delete(ctx context.Context, name Name) error
	// Location describes the place in words a person would use: a path or an URL without secrets.
	Location() string
}

// ProvenEnd is how much of the end of a file a store compares that Proves, in bytes.
const ProvenEnd = 64 << 10

// Proves reports whether a Put of st that has succeeded is proof of what is there: st has read it back by a way of its own,
// its size and at least the last ProvenEnd bytes, and compared it with what was sent. Nobody needs to ask again, which over a long line
// costs as much as the Put. A store says so by a method Proves() bool, and a decorator passes on what the store beneath it
// says; who has no such method proves nothing.
func Proves(st Store) bool {
	p, ok := st.(interface{ Proves() bool })
	return ok && p.Proves()
}
