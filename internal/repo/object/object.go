// Package object transfers the small sealed files of a repository (index segments, snapshots, leases, marks) between a
// store and memory. A written file is sealed and read back. A file that is read is checked against its name and opened.
package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// MaxSize is the largest file in bytes that is read into memory as a whole. The largest that are written are index
// segments; a session ends a segment at a number of blobs that keeps it below a tenth of this.
const MaxSize = 256 << 20

// SmallAtOnce is how many small files are read or removed concurrently: the latency of the target counts.
const SmallAtOnce = 16

// Named returns the name of the file of that kind with that hash.
func Named(kind store.Kind, id format.ID) store.Name { return store.Name{Kind: kind, ID: id.String()} }

// ReadFile returns all bytes of a file. size is the size in a listing, or negative if it is unknown.
func ReadFile(ctx context.Context, st store.Store, name store.Name, size int64) ([]byte, error) {
	if size < 0 {
		info, err := st.Stat(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", name.Path(), err)
		}
		size = info.Size
	}
	if size > MaxSize {
		return nil, fmt.Errorf("read %s: %d bytes are more than any such file has: %w", name.Path(), size, format.ErrCorrupt)
	}
	data := make([]byte, size)
	if err := st.Get(ctx, name, 0, data); err != nil {
		return nil, fmt.Errorf("read %s: %w", name.Path(), err)
	}
	return data, nil
}

// ReadAt fills p from offset off of a file whose size was known when it was written. A file that ends early is damaged,
// so the error then wraps format.ErrCorrupt besides store.ErrShort.
func ReadAt(ctx context.Context, st store.Store, name store.Name, off int64, p []byte) error {
	err := st.Get(ctx, name, off, p)
	if errors.Is(err, store.ErrShort) {
		return fmt.Errorf("%w: %w", err, format.ErrCorrupt)
	}
	return err
}

// ReadNamed is ReadFile for a file that is named by the hash of its bytes. It verifies the hash, and reads once more if
// it differs: a mismatch is format.ErrCorrupt.
func ReadNamed(ctx context.Context, st store.Store, name store.Name, size int64) ([]byte, error) {
	data, err := readNamed(ctx, st, name, size)
	if IsDamage(err) {
		data, err = readNamed(store.SecondLook(ctx), st, name, -1)
	}
	return data, err
}

func readNamed(ctx context.Context, st store.Store, name store.Name, size int64) ([]byte, error) {
	data, err := ReadFile(ctx, st, name, size)
	if err != nil {
		return nil, err
	}
	sum := pack.NewSum()
	_, _ = sum.Write(data) // never fails
	if !Names(name, sum) {
		return nil, fmt.Errorf("read %s: its bytes do not have the hash that is its name: %w", name.Path(), format.ErrCorrupt)
	}
	return data, nil
}

// pieceRead bounds one read of IsWhole.
const pieceRead = 4 << 20

// Sum returns the sum of a file of that size, read in pieces through buf.
func Sum(ctx context.Context, st store.Store, name store.Name, size int64, buf []byte) (*pack.Sum, error) {
	sum := pack.NewSum()
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-at)]
		if err := st.Get(ctx, name, at, buf); err != nil {
			return nil, err
		}
		_, _ = sum.Write(buf) // never fails
	}
	return sum, nil
}

// IsWhole reports whether a file that is named by the hash of its bytes exists and has that hash, read over another
// connection than before. It keeps a part of the file in memory.
func IsWhole(ctx context.Context, st store.Store, name store.Name) (bool, error) {
	ctx = store.SecondLook(ctx)
	info, err := st.Stat(ctx, name)
	var sum *pack.Sum
	if err == nil {
		sum, err = Sum(ctx, st, name, info.Size, make([]byte, min(max(info.Size, 0), pieceRead)))
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrDenied)) {
		return false, fmt.Errorf("read %s once more: %w", name.Path(), err)
	}
	return err == nil && Names(name, sum), nil
}

// Names reports whether name is that of a file with that sum.
func Names(name store.Name, sum *pack.Sum) bool {
	if name.Kind == store.Pack {
		return Named(name.Kind, sum.ID()) == name
	}
	return Named(name.Kind, sum.File()) == name
}

// StillDamaged returns those of the packs that are missing or damaged also when they are read over another connection.
func StillDamaged(ctx context.Context, st store.Store, packs []format.ID) (damaged []format.ID, err error) {
	for _, id := range packs {
		whole, err := IsWhole(ctx, st, Named(store.Pack, id))
		if err != nil {
			return nil, err
		}
		if !whole {
			damaged = append(damaged, id)
		}
	}
	return damaged, nil
}

// Load returns the content of a sealed file. size is as for ReadFile.
func Load(ctx context.Context, st store.Store, keys *seal.Keys, name store.Name, size int64) ([]byte, error) {
	kind, err := sealedAs(name.Kind)
	if err != nil {
		return nil, err
	}
	read := ReadNamed
	if name.Kind == store.Lease { // named by writer and renewal, not by its bytes
		read = ReadFile
	}
	data, err := read(ctx, st, name, size)
	if err != nil {
		return nil, err
	}
	plain, err := keys.OpenObject(kind, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name.Path(), err)
	}
	return plain, nil
}

// Seal returns plain as a sealed file and the name the file must have.
func Seal(keys *seal.Keys, kind store.Kind, plain []byte) (data []byte, id format.ID) {
	as, err := sealedAs(kind)
	if err != nil {
		panic(err) // a mistake of the caller
	}
	data = keys.SealObject(as, plain)
	return data, seal.FileID(data)
}

// Put stores data under name. If prove is set it reads the file back and compares it, unless the store has done so. A
// write without that comparison is not trusted, even if the target reported success.
func Put(ctx context.Context, st store.Store, name store.Name, data []byte, prove bool) error {
	if err := st.Put(ctx, name, data); err != nil {
		return fmt.Errorf("write %s: %w", name.Path(), err)
	}
	if !prove || (store.VerifiesPut(st) && len(data) <= store.ProvenEnd) {
		return nil
	}
	back, err := ReadFile(ctx, st, name, -1)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if !bytes.Equal(back, data) {
		return fmt.Errorf("read back %s: the target holds other bytes than were sent: %w", name.Path(), format.ErrCorrupt)
	}
	return nil
}

// sealedAs maps the kind of a stored file to the kind that is sealed into it.
func sealedAs(kind store.Kind) (seal.ObjectKind, error) {
	switch kind {
	case store.Index:
		return seal.IndexObject, nil
	case store.Snapshot:
		return seal.SnapshotObject, nil
	case store.Lease:
		return seal.LeaseObject, nil
	case store.Mark:
		return seal.MarkObject, nil
	default:
		return 0, fmt.Errorf("file kind %d is not a sealed object", kind)
	}
}

// IsDamage distinguishes a damaged file from an unreachable target.
func IsDamage(err error) bool {
	return errors.Is(err, format.ErrCorrupt) || errors.Is(err, store.ErrShort)
}
