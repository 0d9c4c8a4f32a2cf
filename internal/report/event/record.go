package event

import (
	"time"
	"unicode/utf8"

	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Path is how a path stands in a record: as text, and as bytes where text cannot be exact.
type Path struct {
	Text string `json:"path"`
	Raw  []byte `json:"path_raw,omitempty"`
}

// NewPath makes the two forms of path.
func NewPath(path string) Path {
	text, raw := Escape(path)
	return Path{text, raw}
}

// Escape returns path itself and nil if it is valid UTF-8. If not, text has every byte that is not UTF-8 as \xNN and every
// backslash doubled, and raw holds the exact bytes, which encoding/json writes in base64.
func Escape(path string) (text string, raw []byte) {
	if utf8.ValidString(path) {
		return path, nil
	}
	return human.EscapeInvalid(path), []byte(path)
}

// Moment is a time as RFC 3339 can hold it, in years of four digits wherever on Earth: an earlier or later one becomes the first
// or the last. sec counts from 1970.
func Moment(sec int64, nsec uint32) time.Time {
	first := time.Date(0, 1, 2, 0, 0, 0, 0, time.UTC)
	last := time.Date(9999, 12, 30, 23, 59, 59, 999_999_999, time.UTC)
	switch {
	case sec < first.Unix():
		return first
	case sec > last.Unix():
		return last
	}
	return time.Unix(sec, int64(nsec))
}

// Snapshot is a line of `snapshots`, and the first line of `ls`.
type Snapshot struct {
	Type       string    `json:"message_type"` // "snapshot"
	ID         string    `json:"id"`
	ShortID    string    `json:"short_id"`
	Time       time.Time `json:"time"`
	Tree       string    `json:"tree"`
	Parent     string    `json:"parent,omitempty"`
	Original   string    `json:"original,omitempty"`
	Paths      []string  `json:"paths"`
	Hostname   string    `json:"hostname"`
	Username   string    `json:"username"`
	UID        uint32    `json:"uid"`
	GID        uint32    `json:"gid"`
	Tags       []string  `json:"tags,omitempty"`
	Note       string    `json:"description,omitempty"`
	Program    string    `json:"program_version"`
	System     string    `json:"system"`
	TotalFiles uint64    `json:"total_files_processed"`
	TotalBytes uint64    `json:"total_bytes_processed"`
	Failed     uint64    `json:"failed"`
}

// Node is a line of `ls`, and with Snapshot set a line of `find`.
type Node struct {
	Type        string     `json:"message_type"` // "node", "match"
	Snapshot    string     `json:"snapshot,omitempty"`
	Name        string     `json:"name"`
	NodeType    string     `json:"type"` // "file", "dir", "symlink", "fifo", "socket", "chardev", "dev"
	Path                   // path, path_raw
	UID         uint32     `json:"uid"`
	GID         uint32     `json:"gid"`
	User        string     `json:"user,omitempty"`
	Group       string     `json:"group,omitempty"`
	Size        *uint64    `json:"size,omitempty"`
	Mode        uint32     `json:"mode"`
	Permissions string     `json:"permissions"`
	ModTime     time.Time  `json:"mtime"`
	ChangeTime  time.Time  `json:"ctime"`
	AccessTime  *time.Time `json:"atime,omitempty"`
	BirthTime   *time.Time `json:"btime,omitempty"`
	Inode       uint64     `json:"inode,omitempty"`
	Links       uint64     `json:"links,omitempty"`
	Device      *uint64    `json:"device,omitempty"`
	Target      string     `json:"linktarget,omitempty"`
	TargetRaw   []byte     `json:"linktarget_raw,omitempty"`
	Outcome     string     `json:"outcome,omitempty"` // unless "static"
}

// Change is a line of `diff`.
type Change struct {
	Type     string `json:"message_type"` // "change"
	Modifier string `json:"modifier"`     // "+", "-", "T", or of "MU?" what holds
	Path
}

// DiffStatistics ends a `diff`.
type DiffStatistics struct {
	Type         string   `json:"message_type"` // "statistics"
	Source       string   `json:"source_snapshot"`
	Target       string   `json:"target_snapshot"`
	ChangedFiles uint64   `json:"changed_files"`
	Added        DiffSide `json:"added"`
	Removed      DiffSide `json:"removed"`
}

// DiffSide is what one of two snapshots has more than the other.
type DiffSide struct {
	Files  uint64 `json:"files"`
	Dirs   uint64 `json:"dirs"`
	Others uint64 `json:"others"`
	Bytes  uint64 `json:"bytes"`
}

// Statistics is what `stats` prints.
type Statistics struct {
	Type         string  `json:"message_type"` // "stats"
	Snapshots    uint64  `json:"snapshots_count"`
	FileCount    uint64  `json:"total_file_count"`
	RestoreSize  uint64  `json:"total_size"`
	BlobCount    uint64  `json:"total_blob_count"`
	Uncompressed uint64  `json:"total_uncompressed_size"`
	Stored       uint64  `json:"total_stored_size"`
	Ratio        float64 `json:"compression_ratio,omitempty"`
	Packs        uint64  `json:"pack_count"`
}

// Key is a line of `key list`.
type Key struct {
	Type    string    `json:"message_type"` // "key"
	ID      string    `json:"id"`
	Current bool      `json:"current"`
	Method  string    `json:"method"` // "passphrase", "keyfile", "recovery"
	Label   string    `json:"label"`
	Created time.Time `json:"created"`
}

// Rule is a line of `rules list`, and what `rules explain` prints for a path.
type Rule struct {
	Type     string `json:"message_type"` // "rule", "decision"
	Path     *Path  `json:"subject,omitempty"`
	Excluded *bool  `json:"excluded,omitempty"`
	Rule     string `json:"rule"`
	Source   string `json:"source"`
}

// Option is a line of `options`.
type Option struct {
	Type   string `json:"message_type"` // "option"
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Initialized is what `init` prints.
type Initialized struct {
	Type       string `json:"message_type"` // "initialized"
	ID         string `json:"id"`
	Repository string `json:"repository"`
	Recovery   string `json:"recovery_key,omitempty"`
}

// Version is what `version` prints.
type Version struct {
	Type      string `json:"message_type"` // "version"
	Version   string `json:"version"`
	GoVersion string `json:"go_version"`
	GoOS      string `json:"go_os"`
	GoArch    string `json:"go_arch"`
}
