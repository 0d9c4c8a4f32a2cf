// Package config is the codec of a repository's config. The config can be read without a key, so that a program knows
// at once whether it supports the repository. It is authenticated with the key before anything in it is used. The
// specification is in SPEC.md.
package config

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

const (
	// Version is the version of the repository format that this package reads and writes.
	Version = 1
	// MaxSize is the largest accepted config in bytes. A config of version 1 has about 80.
	MaxSize = 1 << 16
	// MaxChunk is the largest chunk size in bytes: a chunk has to fit into a frame.
	MaxChunk = 16 << 20

	magic       = "TIDEMARK"
	versionSize = 4
	headerSize  = len(magic) + versionSize
	macSize     = seal.KeySize
)

// Tags of the fields.
const (
	tagID       = 1
	tagCreated  = 2
	tagChunker  = 3
	tagFeatures = 5
	tagEpoch    = 7
)

// Tags of the fields of the chunker.
const (
	tagAlgorithm = 1
	tagMin       = 3
	tagAvg       = 5
	tagMax       = 7
)

// Feature is a property that a reader must understand to open the repository. The values are stored.
type Feature uint32

// The features that are reserved for later versions. Version 1 has none and refuses them all.
const (
	WriteOnlyKeys Feature = 1 // packs and objects sealed to a public key, so that a writer cannot read them
	Parity        Feature = 2 // redundant data that repairs damaged packs
	KeyEpochs     Feature = 3 // files sealed under another master key than the first
	BareTrees     Feature = 4 // no tree holds the content of a file, so that the key of trees can be handed out
)

// String returns the feature in words.
func (f Feature) String() string {
	switch f {
	case WriteOnlyKeys:
		return "write-only keys"
	case Parity:
		return "parity"
	case KeyEpochs:
		return "key epochs"
	case BareTrees:
		return "bare trees"
	}
	return fmt.Sprintf("feature %d", uint32(f))
}

// Config describes the files of a repository. Version 1 never changes it after the repository is made.
type Config struct {
	Version  uint32 // set by Decode; Encode writes Version
	ID       ID
	Created  int64 // seconds since 1970-01-01T00:00:00Z
	Chunker  Chunker
	Features []Feature // ascending; Version 1 has none
	Epoch    uint32    // number of the master key that new files are sealed under; Version 1 has 0 only
}

// Chunker says how files are cut. All writers of a repository must cut alike for deduplication.
type Chunker struct {
	Algorithm     uint8 // as numbered by package chunker, from 1
	Min, Avg, Max uint32
}

// ID identifies a repository. It is random.
type ID [16]byte

// NewID returns a random ID.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// String returns the 32 lower-case hexadecimal digits of id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes the hexadecimal form, so that an ID in JSON is a string.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// Encode returns c as it is stored, authenticated with the keys of the repository.
func Encode(c *Config, keys *seal.Keys) []byte {
	p := append(make([]byte, 0, 128), magic...)
	p = wire.AppendUint32(p, Version)
	one, f := *c, wire.NewFields(p)
	one.fields(f)
	p = f.Finish()
	mac := keys.ConfigMAC(p)
	return append(p, mac[:]...)
}

// Decode reads a stored config and returns it with its MAC, which is not yet checked: call Verify as soon as there is a
// key. The error wraps format.ErrCorrupt, or format.ErrUnsupported if a newer program made the repository.
func Decode(p []byte) (c *Config, mac [macSize]byte, err error) {
	body, version, err := split(p)
	if err != nil {
		return nil, mac, fmt.Errorf("read config: %w", err)
	}
	c = &Config{Version: version}
	if err := wire.ReadFields(body, c.fields); err != nil {
		return nil, mac, fmt.Errorf("read config: %w", err)
	}
	if err := c.check(); err != nil {
		return nil, mac, fmt.Errorf("read config: %w", err)
	}
	copy(mac[:], p[len(p)-macSize:])
	return c, mac, nil
}

// Verify checks the MAC of a stored config. The error wraps format.ErrCorrupt if the config is not what someone with
// these keys wrote.
func Verify(p []byte, keys *seal.Keys) error {
	if _, _, err := split(p); err != nil {
		return fmt.Errorf("verify config: %w", err)
	}
	end := len(p) - macSize
	mac := keys.ConfigMAC(p[:end])
	if subtle.ConstantTimeCompare(mac[:], p[end:]) != 1 {
		return fmt.Errorf("verify config: authentication failed: %w", format.ErrCorrupt)
	}
	return nil
}

// split checks the header and returns the bytes between it and the MAC.
func split(p []byte) (body []byte, version uint32, err error) {
	if len(p) > MaxSize {
		return nil, 0, fmt.Errorf("%d bytes are more than %d: %w", len(p), MaxSize, format.ErrCorrupt)
	}
	r := wire.NewReader(p)
	if got := r.Take(len(magic)); string(got) != magic {
		return nil, 0, fmt.Errorf("not the config of a tidemark repository, but of another program's (restic, Borg), or a "+
			"damaged one: %w", format.ErrCorrupt)
	}
	version = r.Uint32()
	if version > Version {
		return nil, 0, fmt.Errorf("repository format %d: %w", version, format.ErrUnsupported)
	}
	body = r.Take(max(0, r.Len()-macSize))
	r.Take(macSize)
	if version < Version {
		r.Fail("repository format %d never existed", version)
	}
	return body, version, r.Done()
}

// fields writes or reads c.
func (c *Config) fields(f *wire.Fields) {
	f.Array(tagID, c.ID[:])
	c.Created = f.Int(tagCreated, c.Created)
	f.Record(tagChunker, func(f *wire.Fields) {
		ch := &c.Chunker
		ch.Algorithm = uint8(f.UintMax(tagAlgorithm, uint64(ch.Algorithm), math.MaxUint8))
		ch.Min = uint32(f.UintMax(tagMin, uint64(ch.Min), MaxChunk))
		ch.Avg = uint32(f.UintMax(tagAvg, uint64(ch.Avg), MaxChunk))
		ch.Max = uint32(f.UintMax(tagMax, uint64(ch.Max), MaxChunk))
	})
	var features []byte
	for _, feature := range c.Features {
		features = wire.AppendUvarint(features, uint64(feature))
	}
	f.Value(tagFeatures, features, func(r *wire.Reader) {
		for r.Len() > 0 {
			c.Features = append(c.Features, Feature(r.UvarintMax(math.MaxUint32)))
		}
	})
	c.Epoch = uint32(f.UintMax(tagEpoch, uint64(c.Epoch), math.MaxUint32))
}

// check rejects values that no program writes, and what only a newer one does.
func (c *Config) check() error {
	switch ch := c.Chunker; {
	case len(c.Features) > 0:
		return fmt.Errorf("the repository uses %s: %w", names(c.Features), format.ErrUnsupported)
	case c.Epoch != 0:
		return fmt.Errorf("the repository is at key epoch %d: %w", c.Epoch, format.ErrUnsupported)
	case c.ID == ID{}:
		return fmt.Errorf("no repository id: %w", format.ErrCorrupt)
	case ch.Algorithm == 0 || ch.Min == 0 || ch.Min > ch.Avg || ch.Avg > ch.Max:
		return fmt.Errorf("chunker cannot work as %+v: %w", ch, format.ErrCorrupt)
	}
	return nil
}

// names lists features for an error.
func names(features []Feature) string {
	all := make([]string, len(features))
	for i, f := range features {
		all[i] = f.String()
	}
	return strings.Join(all, ", ")
}
