// Package snapshot is the codec of snapshots: small records that name the tree of a backup, and when, where and from
// which sources it was made. The bytes are the content of a sealed object; the caller seals it. The specification is in
// SPEC.md.
package snapshot

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// Snapshot is a complete, immutable view of sources at a time.
type Snapshot struct {
	Time         tree.Time // the moment it stands for: Start, unless the user gave another
	Start, End   tree.Time // of the session, by the clock of the machine
	Tree         format.ID // root page of its tree; never zero
	Host, User   string    // whose data it is
	UID, GID     uint32    // the process that made it
	System       string    // "linux/amd64": says how to read the inode flags of the nodes
	Program      string    // name and version of the program that made it
	Sources      []string  // that were to be backed up, also a missing one: absolute paths, byte for byte
	Domain       []string  // what was asked for, if the machine found Sources by it, as by ALL-LOCAL; nil: Sources
	Tags         []string
	Parent       format.ID // the snapshot it was compared with; zero: none
	Shape        format.ID // hash of the options that shape a tree; zero: unknown
	Rules        []string  // the include and exclude rules in force, one line each
	Users        map[uint32]string
	Groups       map[uint32]string
	Stats        Stats
	Original     format.ID // the first of the snapshots it was copied, rewritten or repaired from; zero: none
	Description  string
	Acknowledged []format.ID // marks of prunes that its session obeyed: it needs none of their packs
	Renewed      tree.Time   // when its writer's lease was last renewed before, by the clock of the store; zero: unknown
	Partial      bool        // its sources were not read to their end; a program that does not know this must not use it
	Held         []Held      // what it holds of each of Sources, in their order; nil: unknown
	Job          string      // job of the service that made it; "": made by hand
	Setup        string      // the option file it was made with, without what may be secret; "": none, or unknown
}

// Tags of the fields.
const (
	tagTime         = 1
	tagStart        = 2
	tagEnd          = 4
	tagTree         = 5
	tagHost         = 6
	tagUser         = 8
	tagUID          = 10
	tagGID          = 12
	tagSystem       = 14
	tagProgram      = 16
	tagSources      = 17
	tagTags         = 18
	tagParent       = 20
	tagShape        = 22
	tagRules        = 24
	tagUsers        = 26
	tagGroups       = 28
	tagStats        = 30
	tagOriginal     = 32
	tagDescription  = 34
	tagAcknowledged = 36
	tagRenewed      = 38
	tagPartial      = 39
	tagHeld         = 40
	tagJob          = 42
	tagSetup        = 44
	tagDomain       = 46
)

// Asked returns what the user asked for: the same for each run of a backup, whatever file systems are mounted.
func (s *Snapshot) Asked() []string {
	if len(s.Domain) > 0 {
		return s.Domain
	}
	return s.Sources
}

// maxNsec is the largest number of nanoseconds beside full seconds.
const maxNsec = 999_999_999

// Encode returns the content of a snapshot object. Equal snapshots have equal encodings.
func Encode(s *Snapshot) []byte {
	one, f := *s, wire.NewFields(nil)
	one.fields(f)
	return f.Finish()
}

// Decode reads the content of a snapshot object. Its error wraps format.ErrCorrupt, or format.ErrUnsupported if the
// snapshot needs a newer program.
func Decode(p []byte) (*Snapshot, error) {
	s := &Snapshot{}
	if err := wire.ReadFields(p, s.fields); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if s.Tree.IsZero() {
		return nil, fmt.Errorf("read snapshot: it names no tree: %w", format.ErrCorrupt)
	}
	if len(s.Held) > 0 && len(s.Held) != len(s.Sources) {
		return nil, fmt.Errorf("read snapshot: it describes %d of %d sources: %w", len(s.Held), len(s.Sources),
			format.ErrCorrupt)
	}
	return s, nil
}

// fields writes or reads s.
func (s *Snapshot) fields(f *wire.Fields) {
	timeField(f, tagTime, &s.Time)
	timeField(f, tagStart, &s.Start)
	timeField(f, tagEnd, &s.End)
	s.Tree = f.ID(tagTree, s.Tree)
	s.Host = f.String(tagHost, s.Host)
	s.User = f.String(tagUser, s.User)
	s.UID = uint32(f.UintMax(tagUID, uint64(s.UID), math.MaxUint32))
	s.GID = uint32(f.UintMax(tagGID, uint64(s.GID), math.MaxUint32))
	s.System = f.String(tagSystem, s.System)
	s.Program = f.String(tagProgram, s.Program)
	s.Sources = f.Strings(tagSources, s.Sources)
	s.Tags = f.Strings(tagTags, s.Tags)
	s.Parent = f.ID(tagParent, s.Parent)
	s.Shape = f.ID(tagShape, s.Shape)
	s.Rules = f.Strings(tagRules, s.Rules)
	f.Value(tagUsers, appendNames(s.Users), func(r *wire.Reader) { s.Users = readNames(r) })
	f.Value(tagGroups, appendNames(s.Groups), func(r *wire.Reader) { s.Groups = readNames(r) })
	f.Record(tagStats, s.Stats.fields)
	s.Original = f.ID(tagOriginal, s.Original)
	s.Description = f.String(tagDescription, s.Description)
	s.Acknowledged = f.IDs(tagAcknowledged, s.Acknowledged)
	timeField(f, tagRenewed, &s.Renewed)
	s.Partial = f.Flag(tagPartial, s.Partial, 1)
	f.Value(tagHeld, appendHeld(s.Held), func(r *wire.Reader) { s.Held = readHeld(r) })
	s.Job = f.String(tagJob, s.Job)
	s.Setup = f.String(tagSetup, s.Setup)
	s.Domain = f.Strings(tagDomain, s.Domain)
}

// timeField is the field of a time. Only one that may be unknown is left out if it is zero.
func timeField(f *wire.Fields, tag uint64, t *tree.Time) {
	var p []byte
	if tag != tagRenewed || *t != (tree.Time{}) {
		p = appendTime(*t)
	}
	f.Value(tag, p, func(r *wire.Reader) { *t = readTime(r) })
}

func appendTime(t tree.Time) []byte {
	return wire.AppendUvarint(wire.AppendVarint(nil, t.Sec), uint64(t.Nsec))
}

func readTime(r *wire.Reader) (t tree.Time) {
	t.Sec = r.Varint()
	t.Nsec = uint32(r.UvarintMax(maxNsec))
	return t
}

// appendNames writes the names in the order of their numbers, so that the encoding does not depend on the map's order.
func appendNames(names map[uint32]string) (p []byte) {
	for _, id := range slices.Sorted(maps.Keys(names)) {
		p = wire.AppendString(wire.AppendUvarint(p, uint64(id)), names[id])
	}
	return p
}

func readNames(r *wire.Reader) map[uint32]string {
	if r.Len() == 0 {
		return nil
	}
	names := make(map[uint32]string)
	next := uint64(0) // the least number that may follow
	for r.Len() > 0 {
		id := r.UvarintMax(1<<32 - 1)
		if id < next {
			r.Fail("number %d does not ascend", id)
			return nil
		}
		next = id + 1
		names[uint32(id)] = r.String()
	}
	return names
}
