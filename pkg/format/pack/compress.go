package pack

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

const (
	// MaxLevel is the highest level of compression; 0 stores everything uncompressed.
	MaxLevel = 4

	// leastWindow is the least distance over which zstd finds repetitions, however small frames are.
	leastWindow = 1 << 20
	// minGain: a frame is stored uncompressed unless compression saves one part in so many, because reading it back
	// then needs no decompression.
	minGain = 50
)

// Compressor compresses frames, one after the other. It is not safe for concurrent use: use one per goroutine.
type Compressor struct {
	enc   *zstd.Encoder // nil: store
	probe probe
}

// NewCompressor returns a compressor of that level for frames of up to so many bytes before compression; larger ones
// compress a little worse. Level 0 stores, 1 is fastest, 4 is best. It starts no goroutine. The memory it holds after
// its first frame is, by level, about 1, 2, 5 and 35 MiB, and a frame.
func NewCompressor(level, frame int) (*Compressor, error) {
	var speed zstd.EncoderLevel
	switch level {
	case 0:
		return &Compressor{}, nil
	case 1:
		speed = zstd.SpeedFastest
	case 2:
		speed = zstd.SpeedDefault
	case 3:
		speed = zstd.SpeedBetterCompression
	case 4:
		speed = zstd.SpeedBestCompression
	default:
		return nil, fmt.Errorf("make compressor: level %d is not one of 0 to %d", level, MaxLevel)
	}
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(speed),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(window(frame)), // an encoder allocates a window of history, and frames are independent
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false), // the AEAD of the frame authenticates every byte
	)
	if err != nil {
		return nil, fmt.Errorf("make compressor: %w", err)
	}
	return &Compressor{enc: enc}, nil
}

// window returns the least power of two that spans a frame.
func window(frame int) int {
	size := leastWindow
	for size < min(frame, MaxFrameRaw) {
		size *= 2
	}
	return size
}

// Compress returns raw compressed into the storage of dst, or Stored and raw itself if that is hardly smaller. Data
// that appears random is not compressed. A dst with the capacity of raw never grows.
func (c *Compressor) Compress(dst, raw []byte) (Codec, []byte) {
	if c.enc == nil || !c.probe.compressible(raw) {
		return Stored, raw
	}
	out := c.enc.EncodeAll(raw, dst[:0])
	if len(out)+len(raw)/minGain+1 > len(raw) {
		return Stored, raw
	}
	return Zstd, out
}

const (
	probeMin    = 64 << 10 // shorter frames are compressed without a probe
	probeSlices = 16
	probeSlice  = 4 << 10
	probeBits   = 12
	// probeRepeats: if so many of the 64 Ki probed positions repeat eight earlier bytes, the frame is compressed.
	// Random bytes have no such position.
	probeRepeats = probeSlices * probeSlice / 128
)

// probe reads a sixteenth of a frame of 1 MiB to decide whether to compress it. It does so if in some slice some bytes
// are more frequent than others, or strings of eight bytes repeat.
type probe struct {
	seen [1 << probeBits]uint64
}

func (p *probe) compressible(raw []byte) bool {
	if len(raw) < probeMin {
		return true
	}
	step := (len(raw) - probeSlice) / (probeSlices - 1)
	for i := range probeSlices {
		if skewed(raw[i*step:][:probeSlice]) {
			return true
		}
	}
	clear(p.seen[:])
	repeats := 0
	for i := range probeSlices {
		repeats += p.repeats(raw[i*step:][:probeSlice])
	}
	return repeats >= probeRepeats
}

// skewed reports whether the bytes of slice (probeSlice of them) are distributed so unevenly that entropy coding alone
// would save 2 %. It compares the sum of the squared frequencies with what uniform bytes give: n + n(n-1)/256, up to a
// standard deviation of 0.55 %. Where the ratio is 1+e, the entropy is about e/(2 ln 2) bits below eight: 2 % are 0.16
// bits, so e = 0.22.
func skewed(slice []byte) bool {
	var even, odd [256]uint32 // two, so that a run of one byte does not wait for its own counter
	for i := 0; i+1 < len(slice); i += 2 {
		even[slice[i]]++
		odd[slice[i+1]]++
	}
	sum := uint64(0)
	for i := range even {
		n := uint64(even[i] + odd[i])
		sum += n * n
	}
	const n = uint64(probeSlice)
	const uniform = n + n*(n-1)/256
	return sum > uniform+uniform*22/100
}

// repeats counts the positions of slice whose eight bytes also occur at an earlier position.
func (p *probe) repeats(slice []byte) (count int) {
	const mix = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: spreads any difference into the top bits
	for i := 0; i+8 <= len(slice); i++ {
		word := binary.LittleEndian.Uint64(slice[i:])
		at := bits.RotateLeft64(word*mix, probeBits) & (1<<probeBits - 1)
		if p.seen[at] == word {
			count++
		}
		if i%4 == 0 { // every fourth is enough to be found, and keeps the small table from being overrun
			p.seen[at] = word
		}
	}
	return count
}
