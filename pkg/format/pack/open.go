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

// decodeSlack is spare capacity behind the output of a decompression: with it, zstd copies sixteen bytes at a time.
const decodeSlack = 64

// Opener holds what opening the frames of one pack takes. It is safe for concurrent use.
type Opener struct {
	aead cipher.AEAD
	head header
}

// NewOpener returns the opener of the pack with that salt, as an index or OpenTable tells them. The pack's own header is
// not needed, so damage to it loses nothing as long as the index is there.
func NewOpener(k *seal.Keys, kind Kind, salt [SaltSize]byte) (*Opener, error) {
	return newOpener(k, newHeader(kind, salt))
}

func newOpener(k *seal.Keys, head header) (*Opener, error) {
	aead, err := k.PackAEAD(head.salt())
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	return &Opener{aead: aead, head: head}, nil
}

// Decompressor opens frames, one after the other. It is not safe for concurrent use: take one per goroutine.
type Decompressor struct {
	dec   *zstd.Decoder
	plain []byte   // the body of the last frame, if that was not opened in place
	codec Codec    // how its data is compressed
	lens  []uint32 // the lengths of its blobs

	// Scratch that would be allocated for each frame otherwise, because it is passed through an interface.
	nonce [nonceSize]byte
	ad    [HeaderSize + FrameHeaderSize]byte
}

// NewDecompressor returns a Decompressor. It starts no goroutine.
func NewDecompressor() (*Decompressor, error) {
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(MaxFrameRaw),
		zstd.WithDecodeAllCapLimit(true), // output never grows beyond what the frame declares
	)
	if err != nil {
		return nil, fmt.Errorf("make decompressor: %w", err)
	}
	return &Decompressor{dec: dec}, nil
}

// OpenFrame authenticates, decrypts and decompresses the frame that begins at offset of its pack; sealed is all of it,
// header and tag included, and stays as it is. It returns the frame's blobs one after the other, in the storage of dst
// if that suffices, and the length of each; lens is valid until the next call. That a blob has the ID by which it was
// asked for is for the caller to verify.
//
// The error wraps format.ErrCorrupt if a byte is not as it was written or the frame is at another place, and
// format.ErrUnsupported if a newer program wrote it.
func (d *Decompressor) OpenFrame(o *Opener, offset uint32, sealed, dst []byte) (raw []byte, lens []uint32, err error) {
	d.plain = slices.Grow(d.plain[:0], len(sealed))
	return d.openInto(o, offset, sealed, d.plain, dst, false)
}

// OpenFrameInPlace is OpenFrame for a caller who needs sealed no more: it is decrypted where it lies, which saves the
// memory for its body and a way through it. What sealed holds afterwards, also beside an error, means nothing.
func (d *Decompressor) OpenFrameInPlace(o *Opener, offset uint32, sealed, dst []byte) (raw []byte, lens []uint32, err error) {
	return d.openInto(o, offset, sealed, sealed[min(FrameHeaderSize, len(sealed)):], dst, false)
}

// OpenFrameWithin is OpenFrameInPlace for a caller who keeps sealed as long as raw: what was stored as it is is not
// copied, and raw lies in sealed then (its capacity ends there); else it lies in dst as far as that suffices.
func (d *Decompressor) OpenFrameWithin(o *Opener, offset uint32, sealed, dst []byte) (raw []byte, lens []uint32, err error) {
	return d.openInto(o, offset, sealed, sealed[min(FrameHeaderSize, len(sealed)):], dst, true)
}

// Codec returns how the data of the last frame that was opened is compressed.
func (d *Decompressor) Codec() Codec { return d.codec }

// openInto opens a frame; plain is where its decrypted body goes: elsewhere, or exactly where its sealed body is. With
// within, blobs that were stored as they are stay there.
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

// decodeBody takes codec and lengths off the front of an opened body and decompresses the rest. What was stored as it is
// it copies, or with within returns where it lies.
func (d *Decompressor) decodeBody(plain, dst []byte, within bool) (raw []byte, err error) {
	var r wire.Reader
	r.Reset(plain)
	d.codec = Codec(r.Byte())
	if r.Err() == nil && d.codec != Stored && d.codec != Zstd { // first: it may change what follows
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

// readLens reads the lengths of the blobs into d.lens and returns their sum; errors stick to r.
func (d *Decompressor) readLens(r *wire.Reader) (sum int) {
	count := r.UvarintMax(MaxFrameBlobs)
	if count == 0 || count > uint64(r.Len()) { // each takes a byte at least: bounds the allocation
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
