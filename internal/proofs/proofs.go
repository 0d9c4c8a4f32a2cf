// Package proofs records on this machine when each pack of a repository was last read back intact, and how the last
// restore drill ended. It is one file in the cache folder. Losing it loses no data: the next check begins a new one.
//
//	header, 160 bytes with its own sum | one entry of 40 bytes for each pack, by ID | sum of the entries
package proofs

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	name       = "proofs"
	magic      = "TMPROOF2"
	entrySize  = format.IDSize + 8
	headerSize = 128
	sumSize    = 32
)

// ErrDamaged: the record cannot be read.
var ErrDamaged = errors.New("the record of earlier checks is damaged, and a new one begins")

// Entry records when a pack was proven.
type Entry struct {
	ID format.ID
	At uint32 // in seconds since 1970; 0: never
	// Turn is the number of the check that proved it, or listed it first. Unlike a time, it does not depend on a clock.
	Turn uint32
}

// Drill is a restore of sampled files.
type Drill struct {
	At       time.Time `json:"last_drill,omitzero"` // last restore sample
	Snapshot format.ID `json:"drill_snapshot,omitzero"`
	Files    uint64    `json:"drill_files"` // as in `drill`
	Live     uint64    `json:"drill_files_compared_live"`
	Failed   uint64    `json:"drill_files_failed"`
}

// Damage is what the last check found.
type Damage struct {
	Problems uint64    `json:"problems,omitempty"`      // of the last check
	At       time.Time `json:"problems_found,omitzero"` // when it ended
}

// Summary summarises the record for the whole repository. A time is zero if there was no such check or sample.
type Summary struct {
	Checked  time.Time `json:"last_check,omitzero"` // last check that read data, as in its summary
	Packs    uint64    `json:"packs"`
	Unproven uint64    `json:"packs_unverified"`
	Since    time.Time `json:"verified_since,omitzero"`
	Drill
	Damage
}

// Record is the content of the file.
type Record struct {
	Summary
	Turn    uint32  // of the last check
	Entries []Entry // by ascending ID
}

// Sum computes the parts of the summary that follow from the entries.
func (r *Record) Sum() {
	r.Packs, r.Unproven, r.Since = uint64(len(r.Entries)), 0, time.Time{}
	oldest := uint32(0)
	for _, e := range r.Entries {
		switch {
		case e.At == 0:
			r.Unproven++
		case oldest == 0 || e.At < oldest:
			oldest = e.At
		}
	}
	if oldest > 0 {
		r.Since = moment(int64(oldest))
	}
}

// Find returns the entry of a pack.
func (r *Record) Find(id format.ID) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(r.Entries, id, func(e Entry, id format.ID) int { return e.ID.Compare(id) })
	if !ok {
		return Entry{}, false
	}
	return r.Entries[i], true
}

func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func moment(s int64) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.Unix(s, 0).UTC()
}

func (r *Record) header() []byte {
	p := append(make([]byte, 0, headerSize+sumSize), magic...)
	for _, n := range []uint64{
		uint64(r.Turn), uint64(seconds(r.Checked)), r.Packs, r.Unproven, uint64(seconds(r.Since)),
		uint64(seconds(r.Drill.At)),
		r.Drill.Files, r.Drill.Live, r.Drill.Failed,
		uint64(seconds(r.Damage.At)), r.Damage.Problems,
	} {
		p = binary.LittleEndian.AppendUint64(p, n)
	}
	p = append(p, r.Drill.Snapshot[:]...)
	sum := blake3.Sum256(p)
	return append(p, sum[:]...)
}

func parseHeader(p []byte) (*Record, error) {
	sum := blake3.Sum256(p[:headerSize])
	if !bytes.HasPrefix(p, []byte(magic)) || !bytes.Equal(sum[:], p[headerSize:]) {
		return nil, ErrDamaged
	}
	r := &Record{}
	var n [11]uint64
	for i := range n {
		n[i] = binary.LittleEndian.Uint64(p[len(magic)+8*i:])
	}
	r.Turn, r.Checked, r.Packs, r.Unproven, r.Since = uint32(n[0]), moment(int64(n[1])), n[2], n[3], moment(int64(n[4]))
	r.Drill = Drill{At: moment(int64(n[5])), Files: n[6], Live: n[7], Failed: n[8]}
	r.Damage = Damage{At: moment(int64(n[9])), Problems: n[10]}
	copy(r.Drill.Snapshot[:], p[headerSize-format.IDSize:])
	return r, nil
}

// ReadSummary returns the summary of the record in the folder. Without a record it is zero.
func ReadSummary(dir string) (Summary, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return Summary{}, nil
	}
	if err != nil {
		return Summary{}, fmt.Errorf("read the record of checks: %w", err)
	}
	defer f.Close()
	p := make([]byte, headerSize+sumSize)
	if _, err := io.ReadFull(f, p); err != nil {
		return Summary{}, ErrDamaged
	}
	r, err := parseHeader(p)
	if err != nil {
		return Summary{}, err
	}
	return r.Summary, nil
}

// Read returns the record in the folder, an empty one if there is none. Beside an error it is also empty.
func Read(dir string) (*Record, error) {
	p, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return &Record{}, nil
	}
	if err != nil {
		return &Record{}, fmt.Errorf("read the record of checks: %w", err)
	}
	if len(p) < headerSize+2*sumSize {
		return &Record{}, ErrDamaged
	}
	r, err := parseHeader(p[:headerSize+sumSize])
	if err != nil {
		return &Record{}, err
	}
	body := p[headerSize+sumSize : len(p)-sumSize]
	if sum := blake3.Sum256(body); !bytes.Equal(sum[:], p[len(p)-sumSize:]) || len(body)%entrySize != 0 {
		return &Record{}, ErrDamaged
	}
	r.Entries = make([]Entry, len(body)/entrySize)
	for i := range r.Entries {
		e, at := &r.Entries[i], body[i*entrySize:]
		copy(e.ID[:], at)
		e.At, e.Turn = binary.LittleEndian.Uint32(at[format.IDSize:]), binary.LittleEndian.Uint32(at[format.IDSize+4:])
	}
	return r, nil
}

// Write replaces the record in the folder, which is made if it is missing.
func (r *Record) Write(dir string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the record of checks: %w", err)
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, name+"-*.tmp")
	if err != nil {
		return err
	}
	err = errors.Join(r.writeTo(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (r *Record) writeTo(w io.Writer) error {
	sum := blake3.New()
	out := bufio.NewWriterSize(w, 1<<16)
	body := io.MultiWriter(out, sum)
	_, err := out.Write(r.header())
	entry := make([]byte, 0, entrySize)
	for i := range r.Entries {
		e := &r.Entries[i]
		entry = binary.LittleEndian.AppendUint32(append(entry[:0], e.ID[:]...), e.At)
		if _, werr := body.Write(binary.LittleEndian.AppendUint32(entry, e.Turn)); err == nil {
			err = werr
		}
	}
	if _, werr := out.Write(sum.Sum(nil)); err == nil {
		err = werr
	}
	return errors.Join(err, out.Flush())
}

// WriteDrill replaces the last drill in the record of the folder.
func WriteDrill(dir string, d Drill) error {
	r, err := Read(dir)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	r.Drill = d
	return r.Write(dir)
}

// WriteDamage records in the folder what a check found. A check without a problem is recorded only after one with some.
func WriteDamage(dir string, d Damage) error {
	r, err := Read(dir)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if d.Problems == 0 && r.Damage.Problems == 0 {
		return nil
	}
	r.Damage = d
	return r.Write(dir)
}
