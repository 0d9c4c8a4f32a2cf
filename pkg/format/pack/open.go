package pack

import (
	"crypto/cipher"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// decodeSlack is spare capacity after the output of a decompression, which lets zstd copy sixteen bytes at a time.
const decodeSlack = 64

// Opener holds the key and header for opening the frames of one pack. It is safe for concurrent use.
type Opener struct {
	aead cipher.AEAD
	head header
}

// NewOpener returns the opener of the pack with that salt, which an index or OpenTable returns. The pack's own header
// is not needed, so damage to it loses no data as long as the index exists.
func NewOpener(k *seal.Keys, kind Kind, salt [SaltSize]byte) *Opener {
	return newOpener(k, newHeader(kind, salt))
}

func newOpener(k *seal.Keys, head header) *Opener {
	return &Opener{aead: k.PackAEAD(byte(head.kind()), head.salt()), head: head}
}

// Decompressor opens frames, one after the other. It is not safe for concurrent use: use one per goroutine.
type Decompressor struct {
	dec   *zstd.Decoder
	plain []byte   // the body of the last frame, if that was not opened in place
	codec Codec    // how its data is compressed
	lens  []uint32 // the lengths of its blobs

	// Scratch buffers. They are passed through an interface, so local ones would be allocated for each frame.
	nonce [nonceSize]byte
	ad    [HeaderSize + FrameHeaderSize]byte
}

// NewDecompressor returns a Decompressor. It starts no goroutine.
func NewDecompressor() *Decompressor {
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxFrameRaw),
		zstd.WithDecodeAllCapLimit(true), // output never grows beyond what the frame declares
	)
	if err != nil {
		panic(err) // an invalid option: a mistake of this package
	}
	return &Decompressor{dec: dec}
}

// OpenFrame authenticates, decrypts and decompresses the frame that begins at offset of its pack. sealed is the whole
// frame with header and tag, and stays unchanged. It returns the concatenated blobs, in the storage of dst if that
// suffices, and the length of each; lens is valid until the next call. The caller verifies the IDs of the blobs.
//
// The error wraps format.ErrCorrupt if a byte was changed or the frame is at another offset, and format.ErrUnsupported
// if a newer program wrote it.
func (d *Decompressor) OpenFrame(o *Opener, offset uint32, sealed, dst []byte) (raw []byte, lens []uint32, err error) {
	d.plain = slices.Grow(d.plain[:0], len(sealed))
	return d.openInto(o, offset, sealed, d.plain, dst, false)
}

// OpenFrameInPlace is OpenFrame for a caller that no longer needs sealed: it is decrypted in place, which saves the
// memory for its body and a copy. The content of sealed is undefined afterwards, also after an error.
func (d *Decompressor) OpenFrameInPlace(o *Opener, offset uint32, sealed, dst []byte) (raw []byte, lens []uint32,
	err error) {
	return d.openInto(o, offset, sealed, sealed[min(FrameHeaderSize, len(sealed)):], dst, false)
}

// OpenFrameWithin is OpenFrameInPlace for a caller that keeps sealed as long as raw. Uncompressed data is not copied:
// raw then lies in sealed (its capacity ends there). Otherwise raw lies in dst if that suffices.
func (d *Decompressor) OpenFrameWithin(o *Opener, offset uint32, sealed, dst []byte) (raw []byte, lens []uint32,
	err error) {
	return d.openInto(o, offset, sealed, sealed[min(FrameHeaderSize, len(sealed)):], dst, true)
}

// Codec returns how the data of the last frame that was opened is compressed.
func (d *Decompressor) Codec() Codec { return d.codec }

// openInto opens a frame. plain is the destination of its decrypted body: separate, or exactly the storage of its
// sealed body. With within, uncompressed blobs stay there.
func (d *Decompressor) openInto(o *Opener, offset uint32, sealed, plain, dst []byte, within bool) (
	raw []byte, lens []uint32, err error,
) {
	fh, err := parseFrameHeader(sealed)
	if err != nil {
		return nil, nil, fmt.Errorf("open frame at %d: %w", offset, err)
	}
	if int(fh.body) != len(sealed)-FrameHeaderSize {
		return nil, nil, fmt.Errorf("open frame at %d: body of %d bytes, want %d: %w", offset,
			len(sealed)-FrameHeaderSize, fh.body, format.ErrCorrupt)
	}
	copy(d.ad[:], o.head[:])
	copy(d.ad[HeaderSize:], sealed[:FrameHeaderSize])
	putNonce(&d.nonce, uint64(offset), nonceFrame)
	plain, err = o.aead.Open(plain[:0], d.nonce[:], sealed[FrameHeaderSize:], d.ad[:])
	if err != nil {
		return nil, nil, fmt.Errorf("open frame at %d: authentication failed: %w", offset, format.ErrCorrupt)
	}
	if fh.other != 0 {
		return nil, nil, fmt.Errorf("open frame at %d: frame flags %#08x: %w", offset, fh.other, format.ErrUnsupported)
	}
	raw, err = d.decodeBody(plain, dst, within)
	if err != nil {
		return nil, nil, fmt.Errorf("open frame at %d: %w", offset, err)
	}
	return raw, d.lens, nil
}

// decodeBody reads codec and lengths from the start of an opened body and decompresses the rest. Uncompressed data is
// copied, or with within returned in place.
func (d *Decompressor) decodeBody(plain, dst []byte, within bool) (raw []byte, err error) {
	var r wire.Reader
	r.Reset(plain)
	d.codec = Codec(r.Byte())
	if r.Err() == nil && d.codec != Stored && d.codec != Zstd { // first, because another codec may change what follows
		return nil, fmt.Errorf("%v: %w", d.codec, format.ErrUnsupported)
	}
	size := d.readLens(&r)
	if err := r.Err(); err != nil {
		return nil, err
	}
	data := r.Rest()
	if d.codec == Zstd {
		return d.inflate(data, size, dst)
	}
	if len(data) != size {
		return nil, fmt.Errorf("%d bytes stored, want %d: %w", len(data), size, format.ErrCorrupt)
	}
	if within {
		return data[:len(data):len(data)], nil
	}
	return append(dst[:0], data...), nil
}

// readLens reads the lengths of the blobs into d.lens and returns their sum; errors are kept in r.
func (d *Decompressor) readLens(r *wire.Reader) (sum int) {
	count := r.UvarintMax(MaxFrameBlobs)
	if count == 0 || count > uint64(r.Len()) { // each takes at least a byte: bounds the allocation
		r.Fail("lengths of %d blobs in %d bytes", count, r.Len())
		return 0
	}
	d.lens = slices.Grow(d.lens[:0], int(count))
	for range count {
		n := r.UvarintMax(uint64(MaxFrameRaw - sum))
		d.lens = append(d.lens, uint32(n))
		sum += int(n)
	}
	return sum
}

func (d *Decompressor) inflate(data []byte, size int, dst []byte) ([]byte, error) {
	dst = slices.Grow(dst[:0], size+decodeSlack)
	raw, err := d.dec.DecodeAll(data, dst[:0:size+decodeSlack])
	if err != nil {
		return nil, fmt.Errorf("decompress: %w: %w", err, format.ErrCorrupt)
	}
	if len(raw) != size {
		return nil, fmt.Errorf("decompressed to %d bytes, want %d: %w", len(raw), size, format.ErrCorrupt)
	}
	return raw, nil
}
