package pack

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// tailRead is how many bytes OpenTable reads first, including the footer. It covers the trailer of a usual pack, so
// that on a remote store two reads suffice.
const tailRead = 64 << 10

// OpenTable reads the table of a pack of size bytes through readAt, which must fill p from offset off or fail. It reads
// the end, the header, and the rest of the trailer if that is long: two or three calls. It does not read the frames.
//
// The error wraps format.ErrCorrupt if a byte of header, trailer or footer was changed, or if the pack is of another
// kind than its ID says, and format.ErrUnsupported if a newer program wrote the pack; errors of readAt are wrapped.
func OpenTable(k *seal.Keys, id format.ID, size int64, readAt func(off int64, p []byte) error) (Table, error) {
	t, err := openTable(k, size, readAt)
	if err == nil {
		err = t.fits(id)
	}
	if err != nil {
		return Table{}, fmt.Errorf("open pack table: %w", err)
	}
	return t, nil
}

func openTable(k *seal.Keys, size int64, readAt func(off int64, p []byte) error) (Table, error) {
	if size < HeaderSize+FooterSize || size > MaxPack {
		return Table{}, fmt.Errorf("%d bytes are no pack: %w", size, format.ErrCorrupt)
	}
	var head header
	if err := readAt(0, head[:]); err != nil {
		return Table{}, fmt.Errorf("read header: %w", err)
	}
	if err := head.checkForm(); err != nil {
		return Table{}, err
	}
	sealed, foot, err := readTrailer(size, readAt)
	if err != nil {
		return Table{}, err
	}
	return newOpener(k, head).openTrailer(sealed, foot)
}

// readTrailer returns the sealed trailer and the footer.
func readTrailer(size int64, readAt func(off int64, p []byte) error) (sealed []byte, foot footer, err error) {
	start := max(HeaderSize, size-tailRead)
	tail := make([]byte, size-start)
	if err := readAt(start, tail); err != nil {
		return nil, foot, fmt.Errorf("read footer: %w", err)
	}
	copy(foot[:], tail[len(tail)-FooterSize:])
	at, length, err := foot.trailer(size)
	if err != nil {
		return nil, foot, err
	}
	if at >= start {
		return tail[at-start:][:length], foot, nil
	}
	sealed = make([]byte, length)
	copy(sealed[start-at:], tail)
	if err := readAt(at, sealed[:start-at]); err != nil {
		return nil, foot, fmt.Errorf("read trailer: %w", err)
	}
	return sealed, foot, nil
}

// trailer returns offset and length of the trailer of a pack of that size. It ends at the footer.
func (f *footer) trailer(size int64) (offset, length int64, err error) {
	if string(f[footerMagicOffset:]) != footerMagic {
		return 0, 0, fmt.Errorf("no footer at the end; the pack is cut or was not written to its end: %w",
			format.ErrCorrupt)
	}
	at := binary.LittleEndian.Uint64(f[footerTrailerOffset:])
	n := binary.LittleEndian.Uint32(f[footerLengthOffset:])
	if at < HeaderSize || at > uint64(size) || n < tagSize || at+uint64(n)+FooterSize != uint64(size) {
		return 0, 0, fmt.Errorf("trailer of %d bytes at %d in a pack of %d: %w", n, at, size, format.ErrCorrupt)
	}
	return int64(at), int64(n), nil
}

// openTrailer authenticates the trailer and, with it, header and footer. It decrypts in place.
func (o *Opener) openTrailer(sealed []byte, foot footer) (Table, error) {
	at := binary.LittleEndian.Uint64(foot[footerTrailerOffset:])
	var nonce [nonceSize]byte
	putNonce(&nonce, at, nonceTrailer)
	plain, err := o.aead.Open(sealed[:0], nonce[:], sealed, append(o.head[:], foot[:]...))
	if err != nil {
		return Table{}, fmt.Errorf("authentication of the trailer failed: %w", format.ErrCorrupt)
	}
	if err := o.head.checkMeaning(); err != nil {
		return Table{}, err
	}
	if reserved := foot[footerReservedOffset:footerMagicOffset]; !isZero(reserved) {
		return Table{}, fmt.Errorf("footer flags %x: %w", reserved, format.ErrUnsupported)
	}
	return o.decodeTrailer(plain, at)
}

// decodeTrailer decodes an opened trailer that begins at offset end, where the last frame must have ended.
func (o *Opener) decodeTrailer(plain []byte, end uint64) (Table, error) {
	r := wire.NewReader(plain)
	frames := ReadFrames(r)
	if n := len(frames); n > 0 && uint64(frames[n-1].Offset)+uint64(frames[n-1].Sealed) > end {
		r.Fail("last frame reaches into the trailer")
	}
	if !isZero(r.Rest()) { // of any length, so that a writer may add more padding
		r.Fail("table is not followed by zeros")
	}
	if err := r.Err(); err != nil {
		return Table{}, err
	}
	return Table{Kind: o.head.kind(), Salt: o.head.salt(), Frames: frames}, nil
}

func isZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
