package pack

import (
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

const (
	// minFrameRow and minBlobRow are the lengths of the shortest encodings in a table. They bound the memory that a
	// reader allocates by the length of its input.
	minFrameRow = 4
	minBlobRow  = 1 + format.IDSize
)

// AppendFrames appends the encoding of frames, which the trailer of a pack and an index segment share. The frames must
// be in the order of their offsets and not overlap.
func AppendFrames(dst []byte, frames []Frame) []byte {
	blobs := 0
	for i := range frames {
		blobs += len(frames[i].Blobs)
	}
	dst = wire.AppendUvarint(dst, uint64(len(frames)))
	dst = wire.AppendUvarint(dst, uint64(blobs))
	end := uint32(HeaderSize)
	for i := range frames {
		f := &frames[i]
		dst = wire.AppendUvarint(dst, uint64(f.Offset-end)) // 0 unless a damaged frame was left out
		dst = append(dst, byte(f.Codec))
		dst = wire.AppendUvarint(dst, uint64(f.Sealed))
		dst = wire.AppendUvarint(dst, uint64(len(f.Blobs)))
		for j := range f.Blobs {
			dst = wire.AppendUvarint(dst, uint64(f.Blobs[j].Len))
			dst = append(dst, f.Blobs[j].ID[:]...)
		}
		end = f.Offset + f.Sealed
	}
	return dst
}

// ReadFrames reads the encoding of AppendFrames; errors are kept in r. All blobs share one allocation.
func ReadFrames(r *wire.Reader) []Frame {
	count, total := r.Uvarint(), r.Uvarint()
	if count > uint64(r.Len())/minFrameRow || total > uint64(r.Len())/minBlobRow {
		r.Fail("table of %d frames with %d blobs in %d bytes", count, total, r.Len())
	}
	if r.Err() != nil {
		return nil
	}
	frames := make([]Frame, count)
	blobs := make([]Blob, 0, total)
	end := uint64(HeaderSize)
	for i := range frames {
		blobs = readFrame(r, &frames[i], end, blobs)
		if r.Err() != nil {
			return nil
		}
		end = uint64(frames[i].Offset) + uint64(frames[i].Sealed)
	}
	if uint64(len(blobs)) != total {
		r.Fail("table has %d blobs, %d are announced", len(blobs), total)
		return nil
	}
	return frames
}

// readFrame reads one row of the table into f. The frame lies at or after end; its blobs are appended to blobs, which
// never grows beyond its capacity.
func readFrame(r *wire.Reader, f *Frame, end uint64, blobs []Blob) []Blob {
	gap := r.UvarintMax(MaxPack)
	f.Codec = Codec(r.Byte())
	sealed := r.UvarintMax(FrameHeaderSize + maxBody)
	count := r.Uvarint()
	switch {
	case r.Err() != nil:
		return blobs
	case sealed < minSealed || end+gap+sealed > MaxPack:
		r.Fail("frame of %d bytes at offset %d", sealed, end+gap)
		return blobs
	case count == 0 || count > MaxFrameBlobs || count > uint64(cap(blobs)-len(blobs)):
		r.Fail("frame of %d blobs", count)
		return blobs
	}
	f.Offset, f.Sealed = uint32(end+gap), uint32(sealed)
	first, raw := len(blobs), uint64(0)
	for range count {
		n := r.UvarintMax(MaxFrameRaw)
		blobs = append(blobs, Blob{ID: r.ID(), Len: uint32(n)})
		raw += n
	}
	if raw > MaxFrameRaw {
		r.Fail("frame of %d bytes exceeds %d", raw, MaxFrameRaw)
		return blobs
	}
	f.Raw = uint32(raw)
	f.Blobs = blobs[first:len(blobs):len(blobs)]
	return blobs
}
