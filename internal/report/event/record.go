package event

import (
	"time"
	"unicode/utf8"

	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Path is how a path stands in a record: as text, and as bytes where text cannot be exact.
type Path struct {
	Text string `json:"path"` // with invalid bytes as `\xNN`
	// exact bytes, if those of the path are not valid UTF-8
	Raw []byte `json:"path_raw,omitempty"`
}

// NewPath makes the two forms of path.
func NewPath(path string) Path {
	text, raw := Escape(path)
	return Path{text, raw}
}

// Exact returns the path that NewPath was given.
func (p *Path) Exact() string {
	if p.Raw != nil {
		return string(p.Raw)
	}
	return p.Text
}

// Escape returns path itself and nil if it is valid UTF-8. If not, text has every byte that is not UTF-8 as \xNN and
// every backslash doubled, and raw holds the exact bytes, which encoding/json writes in base64.
func Escape(path string) (text string, raw []byte) {
	if utf8.ValidString(path) {
		return path, nil
	}
	return human.EscapeInvalid(path), []byte(path)
}

// Paths are the texts of Escape; without paths, the list is empty and not nil.
func Paths(all []string) []string {
	texts := make([]string, len(all))
	for i, path := range all {
		texts[i], _ = Escape(path)
	}
	return texts
}

// Moment is a time as RFC 3339 can hold it, in years of four digits wherever on Earth: an earlier or later one becomes
// the first or the last. sec counts from 1970.
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
	ID         string    `json:"id"`
	ShortID    string    `json:"short_id"`
	Time       time.Time `json:"time"`               // start time or `--time`
	Tree       string    `json:"tree"`               // root tree
	Parent     string    `json:"parent,omitempty"`   // compared with
	Original   string    `json:"original,omitempty"` // rewritten or copied from
	Paths      []string  `json:"paths"`              // sources
	Domain     []string  `json:"domain,omitempty"`   // words of DOMAIN that led to paths, such as `ALL-LOCAL`
	Hostname   string    `json:"hostname"`           // of the backup
	Username   string    `json:"username"`
	UID        uint32    `json:"uid"`
	GID        uint32    `json:"gid"`
	Tags       []string  `json:"tags,omitempty"`
	Note       string    `json:"description,omitempty"`
	Program    string    `json:"program_version"`       // of the program that made it
	System     string    `json:"system"`                // such as `linux/amd64`
	TotalFiles uint64    `json:"total_files_processed"` // regular files
	TotalBytes uint64    `json:"total_bytes_processed"` // their sizes
	Failed     uint64    `json:"failed"`                // objects not backed up
	Partial    bool      `json:"partial,omitempty"`     // the first backup of its sources has not ended
}

// Node is a line of `ls`, and with Snapshot set a line of `find`.
type Node struct {
	Type     string `json:"message_type"`       // "node", "match"
	Snapshot string `json:"snapshot,omitempty"` // `match` only
	Name     string `json:"name"`               // last part of the path
	// `file`, `dir`, `symlink`, `fifo`, `socket`, `chardev`, `dev`
	NodeType    string     `json:"type"`
	Path                   // path, path_raw
	UID         uint32     `json:"uid"`
	GID         uint32     `json:"gid"`
	User        string     `json:"user,omitempty"` // on the source machine
	Group       string     `json:"group,omitempty"`
	Size        *uint64    `json:"size,omitempty"` // of files
	Mode        uint32     `json:"mode"`           // decimal
	Permissions string     `json:"permissions"`    // as `ls -l`
	ModTime     time.Time  `json:"mtime"`
	ChangeTime  time.Time  `json:"ctime"`
	AccessTime  *time.Time `json:"atime,omitempty"`
	BirthTime   *time.Time `json:"btime,omitempty"`
	Inode       uint64     `json:"inode,omitempty"`
	Links       uint64     `json:"links,omitempty"`
	Device      *uint64    `json:"device,omitempty"`     // devices: major << 32 + minor
	Target      string     `json:"linktarget,omitempty"` // of a symbolic link
	TargetRaw   []byte     `json:"linktarget_raw,omitempty"`
	// `retried` (changed, then consistent), `dynamic` (stored although it changed), `skipped` (changed each time, no
	// content), `unreadable` (no content)
	Outcome string `json:"outcome,omitempty"`
}

// ContentVersion is a line of `versions`.
type ContentVersion struct {
	Path                // path, path_raw
	NodeType  string    `json:"type"`           // as in `node`
	Host      string    `json:"host,omitempty"` // if the snapshots are of several
	Size      *uint64   `json:"size,omitempty"` // of files
	ModTime   time.Time `json:"mtime"`
	First     string    `json:"first_snapshot"` // the oldest in a row with this content
	Saved     time.Time `json:"first_time"`     // of that snapshot
	Last      string    `json:"last_snapshot"`  // the newest of them
	Until     time.Time `json:"last_time"`
	Snapshots int       `json:"snapshots"` // how many
	Active    bool      `json:"active"`    // the newest snapshot has it
	Outcome   string    `json:"outcome"`   // as in `node`; `static`: read in one go
}

// Statistics is what `stats` prints.
type Statistics struct {
	// what was counted: `restore-size`, `files-by-contents`, `raw-data`, `unique` or `repository`
	Mode      string `json:"mode"`
	Snapshots uint64 `json:"snapshots_count"`
	FileCount uint64 `json:"total_file_count"` // objects, per snapshot
	// by mode: file sizes as restored; file sizes with equal files counted once; chunks after deduplication, before
	// compression (the last three modes)
	RestoreSize  uint64  `json:"total_size"`
	BlobCount    uint64  `json:"total_blob_count"`            // different blobs
	Uncompressed uint64  `json:"total_uncompressed_size"`     // before compression
	Stored       uint64  `json:"total_stored_size"`           // as stored
	Ratio        float64 `json:"compression_ratio,omitempty"` // uncompressed / stored
	Packs        uint64  `json:"pack_count"`                  // packs, with the mode `repository`
	ChunkSize    uint32  `json:"chunk_size,omitempty"`        // average in bytes, with the mode `repository`
	// with `--cost`: of what is stored, in the currency of the prices
	Month *float64 `json:"cost_of_month,omitempty"`
	// with `--cost`: list of *costs of runs*
	Costs []RunCost `json:"costs,omitempty"`
}

// RunCost is an estimate of what a run costs.
type RunCost struct {
	Name     string          `json:"run"`        // `unchanged backup`, `check --read-data`, `full restore`
	Requests report.Requests `json:"requests"`   // as in *Figures*, estimated
	Out      uint64          `json:"bytes_read"` // that are read from the store
	Cost     float64         `json:"cost"`       // in the currency of the prices
}

// Analysis is what `analyze` prints.
type Analysis struct {
	// what is counted: `added` (`snapshots` need it, `besides` do not), `needed`, `old` (no newest one of a host and paths
	// needs it) or `unique` (no other snapshot needs it)
	About        string   `json:"about"`
	Of           []string `json:"snapshots"`               // list of IDs
	Besides      []string `json:"besides"`                 // list of IDs
	Excluded     bool     `json:"excluded"`                // true if nothing but what `--exclude` matches needs it
	Blobs        uint64   `json:"total_blob_count"`        // different blobs
	Uncompressed uint64   `json:"total_uncompressed_size"` // of these
	Stored       uint64   `json:"total_stored_size"`       // compressed: its share of the packs
	Freed        *int64   `json:"bytes_freed,omitempty"`   // with `--forget`: by the prune afterwards
	Unused       *uint64  `json:"bytes_unused,omitempty"`  // likewise: left in packs that stay
	// list of *rows of an analysis*, which add up to `total_stored_size`
	Rows []AnalysisRow `json:"rows"`
}

// AnalysisRow is a file or folder of an Analysis.
type AnalysisRow struct {
	Path          // that of a folder ends with a slash
	Stored uint64 `json:"stored_size"` // without what has a row of its own
}

// Key is a line of `key list`.
type Key struct {
	ID      string    `json:"id"`
	Current bool      `json:"current"` // true if it opened the repository
	Method  string    `json:"method"`  // `passphrase`, `keyfile` or `recovery`
	Label   string    `json:"label"`   // `user@host`
	Created time.Time `json:"created"` // time
}

// Rule is a line of `rules list`, and what `rules explain` prints for a path.
type Rule struct {
	Path     *Path  `json:"subject,omitempty"`  // `decision`: object with the path
	Excluded *bool  `json:"excluded,omitempty"` // boolean
	Rule     string `json:"rule"`               // text, empty if no rule decides (included)
	Source   string `json:"source"`             // option, or file and line
}
