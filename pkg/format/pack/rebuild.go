package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// Rebuild makes the table of a pack from its frames alone, for a pack whose trailer is damaged, lost or cut off. It
// opens every frame and computes the IDs of its blobs from their bytes.
//
// The error is nil if the frames follow one another without a gap up to the end of data or to the trailer that the
// footer names. Any other bytes make the error wrap format.ErrCorrupt. The table still holds every frame that could be
// opened, before and after the damage: the caller chooses whether to use them.
func Rebuild(k *seal.Keys, id format.ID, data []byte) (Table, error) {
	if len(data) < HeaderSize || len(data) > MaxPack {
		return Table{}, fmt.Errorf("rebuild table: %d bytes are no pack: %w", len(data), format.ErrCorrupt)
	}
	head := header(data)
	if err := head.checkForm(); err != nil {
		return Table{}, fmt.Errorf("rebuild table: %w", err)
	}
	if err := (&Table{Kind: head.kind()}).fits(id); err != nil {
		return Table{}, fmt.Errorf("rebuild table: %w", err)
	}
	w := walk{data: data, opener: newOpener(k, head), dec: NewDecompressor(), hasher: k.Hasher(),
		credit: wasteFactor * len(data)}
	if err := w.run(); err != nil {
		return w.table, fmt.Errorf("rebuild table: %w", err)
	}
	return w.table, nil
}

// wasteFactor bounds the search after damage: this many times the length of the pack may be decrypted without a result.
// Without a bound, a forged file full of frame headers would keep the search busy for ever.
const wasteFactor = 4

// walk iterates over the frames of a pack.
type walk struct {
	data   []byte
	opener *Opener
	dec    *Decompressor
	hasher *seal.Hasher
	table  Table
	raw    []byte // of the last frame
	credit int    // bytes that may still be decrypted without a result
}

func (w *walk) run() error {
	w.table = Table{Kind: w.opener.head.kind(), Salt: w.opener.head.salt()}
	lost, firstLost := 0, 0
	at := HeaderSize
	for at < len(w.data) {
		n, err := w.frame(at)
		if err == nil { // independent of the footer, which is not authenticated here
			at += n
			continue
		}
		if errors.Is(err, format.ErrUnsupported) { // authentic, so the search must not continue after it
			return err
		}
		if w.trailerAt(at) {
			break
		}
		next := w.search(at + 1)
		if lost == 0 {
			firstLost = at
		}
		lost += next - at
		at = next
	}
	if lost > 0 {
		return fmt.Errorf("%d bytes from offset %d on are neither frame nor trailer: %w", lost, firstLost,
			format.ErrCorrupt)
	}
	return w.opener.head.checkMeaning()
}

// trailerAt reports whether the trailer begins at offset at, according to an intact footer. The trailer itself may be
// damaged: it holds only data that the frames hold too.
func (w *walk) trailerAt(at int) bool {
	if len(w.data)-at < FooterSize {
		return false
	}
	foot := footer(w.data[len(w.data)-FooterSize:])
	offset, _, err := foot.trailer(int64(len(w.data)))
	return err == nil && offset == int64(at)
}

// frame opens the frame at offset at, adds it to the table and returns its length.
func (w *walk) frame(at int) (int, error) {
	fh, err := parseFrameHeader(w.data[at:])
	if err != nil {
		return 0, err
	}
	n := FrameHeaderSize + int(fh.body)
	if n > len(w.data)-at {
		return 0, fmt.Errorf("frame of %d bytes is cut off: %w", n, format.ErrCorrupt)
	}
	if w.credit < 0 {
		return 0, fmt.Errorf("search given up: %w", format.ErrCorrupt)
	}
	raw, lens, err := w.dec.OpenFrame(w.opener, uint32(at), w.data[at:at+n], w.raw)
	if err != nil {
		w.credit -= n
		return 0, err
	}
	w.raw = raw
	f := Frame{Offset: uint32(at), Sealed: uint32(n), Raw: uint32(len(raw)), Codec: w.dec.codec,
		Blobs: make([]Blob, len(lens))}
	for i, size := range lens {
		f.Blobs[i] = Blob{ID: w.hasher.ID(raw[:size]), Len: size}
		raw = raw[size:]
	}
	w.table.Frames = append(w.table.Frames, f)
	return n, nil
}

// search returns the next offset from at on where a frame may begin, or the end.
func (w *walk) search(at int) int {
	if w.credit < 0 {
		return len(w.data)
	}
	if i := bytes.Index(w.data[at:], []byte(frameMagic)); i >= 0 {
		return at + i
	}
	return len(w.data)
}
