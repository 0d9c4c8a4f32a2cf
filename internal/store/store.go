// Package store defines the byte container that holds a repository. The contract has no rename and no lock, so that an
// object store can implement it.
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
	Lease                    // the presence of writers; each renewal is a new file
	Mark                     // packs that writers must not use, and removed snapshots
)

// Name identifies a stored file. ID is 1 to 64 lower-case hexadecimal digits, which is safe on shares that fold case.
// It is empty for Config.
type Name struct {
	Kind Kind
	ID   string
}

// Info describes a stored file.
type Info struct {
	Name     Name
	Size     int64     // bytes
	Modified time.Time // by the clock of the target
	Fence    bool      // no file, but a name that Exclusive.Fence has taken
}

// Store keeps files under names. Implementations are safe for concurrent use, and pass the suite in package storetest.
// A missing file is reported as an error that wraps ErrNotExist, a name that fails Name.Check as one that wraps
// ErrName, and a cancelled context as one that wraps its cause.
type Store interface {
	Reader
	Exclusive
	// Put stores data under name, all or nothing, and returns once it is durable. A file that already exists under
	// name is replaced atomically; a fence is ErrFenced. data is not kept. A lease need only be visible to others: where
	// a crash ends every writer, a crash may lose or empty it.
	Put(ctx context.Context, name Name, data []byte) error
	// Delete removes the file or the fence; a missing one is ErrNotExist, unless an answer was lost. A later Put or Delete
	// never becomes durable before it. Two removals may be lost in a crash: that of a pack, and that of a lease where a
	// crash ends every writer.
	Delete(ctx context.Context, name Name) error
	// Location returns a path or an URL for messages, without secrets.
	Location() string
}

// Reader reads what a store keeps.
type Reader interface {
	// Get fills p from offset off of the file. A file that ends before p is full is ErrShort; the content of p is then
	// undefined. With an empty p it checks whether the file exists.
	Get(ctx context.Context, name Name, off int64, p []byte) error
	// Stat returns size and time of one file.
	Stat(ctx context.Context, name Name) (Info, error)
	// List yields every file of a kind, in no particular order. Foreign and temporary files are left out. A file that
	// is put or deleted while the list runs may or may not be in it; a caller that deletes what it lists collects
	// the names first. After an error the list has ended.
	List(ctx context.Context, kind Kind) iter.Seq2[Info, error]
}

// Exclusive gives a name to one of several programs. Of all calls for one name exactly one succeeds; each store
// documents what that rests on.
type Exclusive interface {
	// PutNew stores data as Put does, under a name that nothing has. Otherwise it changes nothing and returns ErrExists,
	// or ErrFenced. After a lost answer the file that exists can be the caller's own. Until PutNew has returned, the
	// file may be seen incomplete. Modified of the result may be a few seconds off; it is zero if the store would have
	// to ask for it.
	PutNew(ctx context.Context, name Name, data []byte) (Info, error)
	// Fence takes the name of a lease, so that no file can be stored under it until the fence is deleted. It returns
	// ErrExists if a file has the name, and nil if it is fenced already.
	Fence(ctx context.Context, name Name) error
}

// contextKey is the key of a value that this package puts into a context.
type contextKey uint8

// The keys, by the function that sets the value.
const (
	anyway contextKey = iota // Discard, DeleteUnseen
	passing
	intoReserve
	reportMisplaced
	secondLook
	pacer
)

// find returns what has the methods of T: st, or the nearest of the stores that it decorates. A decorator has a method
// Inner() Store.
func find[T any](st Store) (found T, ok bool) {
	for {
		if found, ok = st.(T); ok {
			return found, true
		}
		d, decorates := st.(interface{ Inner() Store })
		if !decorates {
			return found, false
		}
		st = d.Inner()
	}
}

// EndsWithProcess reports whether all requests of a process are over when the process has ended. That holds for a disk
// of this machine; a server may execute a request later. A store implements it by a method EndsWithProcess() bool;
// without that method the result is false.
func EndsWithProcess(st Store) bool {
	e, ok := find[interface{ EndsWithProcess() bool }](st)
	return ok && e.EndsWithProcess()
}

// ProvenEnd is how many bytes at the end of a file are compared by a store that verifies.
const ProvenEnd = 64 << 10

// VerifiesPut reports whether a successful Put of st has verified the file: it read back the size and at least the last
// ProvenEnd bytes, and compared them with what was sent. The caller need not check again. A store implements it by a
// method VerifiesPut() bool; without that method the result is false.
func VerifiesPut(st Store) bool {
	p, ok := find[interface{ VerifiesPut() bool }](st)
	return ok && p.VerifiesPut()
}
