package event

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Figures are the numbers of the session report; every summary has them.
type Figures struct {
	Objects      report.ObjectsOf[uint64] `json:"objects"` // below
	Bytes        report.BytesOf[uint64]   `json:"bytes"`
	Packs        report.PacksOf[uint64]   `json:"packs"`            // object: `stored`, `fetched`
	TransferTime float64                  `json:"transfer_seconds"` // worker time
	Phases       map[string]float64       `json:"phase_seconds"`    // object: elapsed time by phase
	// object: worker time by stage: `idle`, `scan`, `compare`, `read`, `chunk`, `compress`, `seal`, `store`, `encode`,
	// `fetch`, `unpack`, `write`, `attrs`, `wait_scan`, `wait_read`, `wait_cpu`, `wait_store`, `wait_write`,
	// `wait_memory`
	Stages         map[string]float64 `json:"stage_seconds"`
	Bottleneck     string             `json:"bottleneck,omitempty"`       // as `waiting_for`
	BottleneckPart float64            `json:"bottleneck_share,omitempty"` // ratio of worker time without `idle`
	report.Limits
	Yielding
}

// Reductions are the ratios of the session report of a backup; the other jobs reduce nothing.
type Reductions struct {
	CompressedBy   float64 `json:"compressed_by"`           // 1 - transferred / processed
	DedupReduction float64 `json:"deduplication_reduction"` // 1 - after / before deduplication
	TotalReduction float64 `json:"total_data_reduction"`    // 1 - transferred / inspected
}

// BackupSummary ends a backup.
type BackupSummary struct {
	Type            string `json:"message_type"`      // "summary"
	DryRun          bool   `json:"dry_run,omitempty"` // true if nothing was written; so in every summary
	FilesNew        uint64 `json:"files_new"`         // regular files compared with the parent
	FilesChanged    uint64 `json:"files_changed"`
	FilesUnmodified uint64 `json:"files_unmodified"`
	// stored again since the repository had lost data of them
	FilesMended     uint64    `json:"files_repaired,omitempty"`
	DirsNew         uint64    `json:"dirs_new"` // directories
	DirsChanged     uint64    `json:"dirs_changed"`
	DirsUnmodified  uint64    `json:"dirs_unmodified"`
	OthersNew       uint64    `json:"others_new"` // links, devices, fifos, sockets
	OthersChanged   uint64    `json:"others_changed"`
	OthersSame      uint64    `json:"others_unmodified"`
	DataBlobs       uint64    `json:"data_blobs"`            // new chunks
	TreeBlobs       uint64    `json:"tree_blobs"`            // new tree pages
	DataAdded       uint64    `json:"data_added"`            // their bytes before compression
	DataAddedPacked uint64    `json:"data_added_packed"`     // growth of the repository
	TotalFiles      uint64    `json:"total_files_processed"` // regular files in the snapshot, without those that failed
	TotalBytes      uint64    `json:"total_bytes_processed"` // sizes of all regular files
	BackupStart     time.Time `json:"backup_start"`          // by the clock of this machine
	BackupEnd       time.Time `json:"backup_end"`
	TotalDuration   float64   `json:"total_duration"`        // seconds
	ErrorCount      uint64    `json:"error_count"`           // events
	SnapshotID      string    `json:"snapshot_id,omitempty"` // none in a dry run, or if nothing changed
	Sources         []Source  `json:"sources"`               // list of *sources*
	// why `forget` removes no snapshot of these sources by a policy
	RetentionWaits string      `json:"retention_waits,omitempty"`
	Warnings       []string    `json:"warnings,omitempty"` // such as of a damaged snapshot
	Workers        []PoolSizes `json:"workers,omitempty"`  // list of *workers*
	Reductions
	Figures
}

// Source is what a backup found of one source.
type Source struct {
	Path // path, path_raw
	// `whole`, `missing`, `unreadable`, `empty` (nothing is left, or ever was), `shrunk` (see `--shrink-limit`)
	State  string `json:"state"`
	Files  uint64 `json:"files"`  // in the snapshot, links and devices too
	Bytes  uint64 `json:"bytes"`  // sizes of the files
	Failed uint64 `json:"failed"` // objects not backed up
	// unless `whole`: in the last snapshot in which it was
	ExpectedFiles uint64 `json:"expected_files,omitempty"`
	ExpectedBytes uint64 `json:"expected_bytes,omitempty"`
	Accepted      bool   `json:"accepted,omitempty"` // whatever is missing: `--expect-shrink`
	Message       string `json:"message,omitempty"`  // why it is not `whole`
}

// RestoreSummary ends a restore.
type RestoreSummary struct {
	Type           string `json:"message_type"` // "summary"
	DryRun         bool   `json:"dry_run,omitempty"`
	SecondsElapsed uint64 `json:"seconds_elapsed"`
	TotalFiles     uint64 `json:"total_files"`    // selected objects
	FilesRestored  uint64 `json:"files_restored"` // as in `status`
	FilesSkipped   uint64 `json:"files_skipped"`
	FilesDeleted   uint64 `json:"files_deleted"`        // by `--delete`
	FilesReplaced  uint64 `json:"files_replaced"`       // existing objects that were replaced
	NewerReplaced  uint64 `json:"newer_files_replaced"` // of these, changed after the snapshot
	TotalBytes     uint64 `json:"total_bytes"`          // selected file data
	BytesRestored  uint64 `json:"bytes_restored"`       // as in `status`
	ErrorCount     uint64 `json:"error_count"`          // events
	RemarkCount    uint64 `json:"remark_count"`
	Figures
}

// CheckSummary ends a check.
type CheckSummary struct {
	Type           string     `json:"message_type"` // "summary"
	SecondsElapsed uint64     `json:"seconds_elapsed"`
	NumErrors      uint64     `json:"num_errors"`           // problems, each an `error`
	BrokenPacks    []string   `json:"broken_packs"`         // list
	RepairIndex    bool       `json:"suggest_repair_index"` // true if that would help
	Prune          bool       `json:"suggest_prune"`
	Unproven       *uint64    `json:"packs_unverified,omitempty"` // packs never read back by a check on this machine
	Since          *time.Time `json:"verified_since,omitempty"`   // all others were, at this time or later
	Figures
}

// PruneSummary ends a prune.
type PruneSummary struct {
	Type           string   `json:"message_type"` // "summary"
	DryRun         bool     `json:"dry_run,omitempty"`
	Snapshots      uint64   `json:"snapshots"`    // traversed
	PacksBefore    uint64   `json:"packs_before"` // at the start
	BytesBefore    uint64   `json:"bytes_before"`
	PacksRemoved   uint64   `json:"packs_removed"` // of these
	BytesRemoved   uint64   `json:"bytes_removed"`
	PacksKept      uint64   `json:"packs_kept"` // of these
	BytesKept      uint64   `json:"bytes_kept"`
	PacksWritten   uint64   `json:"packs_written"` // repacked
	BytesWritten   uint64   `json:"bytes_written"`
	PacksAfter     uint64   `json:"packs_after"` // at the end
	BytesAfter     uint64   `json:"bytes_after"`
	IndexFreed     int64    `json:"index_bytes_freed"` // index alone, packs and index
	BytesFreed     int64    `json:"bytes_freed"`       // negative if they grew
	PacksMarked    uint64   `json:"packs_marked"`      // found unused by this run
	BytesMarked    uint64   `json:"bytes_marked"`
	PacksRepacked  uint64   `json:"packs_repacked"` // partly used packs of these
	BytesRepacked  uint64   `json:"bytes_repacked"`
	BytesRewritten uint64   `json:"bytes_rewritten"` // their used data before compression
	PacksPending   uint64   `json:"packs_pending"`   // marked, not removed yet
	BytesPending   uint64   `json:"bytes_pending"`
	PacksRevived   uint64   `json:"packs_revived"` // marked but needed
	PacksDamaged   uint64   `json:"packs_damaged"` // unreadable, kept
	BytesUnused    uint64   `json:"bytes_unused"`  // unused data in packs that stay
	Pending        bool     `json:"pending"`       // true if a later prune has to remove packs
	Waiting        []string `json:"waiting_for"`   // list of writing hosts
	SecondsElapsed uint64   `json:"seconds_elapsed"`
	Figures
}

// CopiedSnapshot is what became of one snapshot that was to be copied.
type CopiedSnapshot struct {
	Type     string `json:"message_type"` // "copied"
	DryRun   bool   `json:"dry_run,omitempty"`
	ID       string `json:"snapshot_id,omitempty"` // ID of the copy
	Original string `json:"original"`              // source snapshot
	There    bool   `json:"already_copied"`        // true if copied earlier
	Error    string `json:"error,omitempty"`       // data lost in the source; not copied
}

// CopySummary ends a copy.
type CopySummary struct {
	Type           string `json:"message_type"` // "summary"
	DryRun         bool   `json:"dry_run,omitempty"`
	Copied         uint64 `json:"snapshots_copied"`
	There          uint64 `json:"snapshots_skipped"` // copied earlier
	Failed         uint64 `json:"snapshots_failed"`
	SameKey        bool   `json:"same_key"`   // true if both share a master key
	DataBlobs      uint64 `json:"data_blobs"` // stored
	TreeBlobs      uint64 `json:"tree_blobs"`
	DataAdded      uint64 `json:"data_added"`   // their bytes before compression
	BytesStored    uint64 `json:"bytes_stored"` // growth of the repository
	SecondsElapsed uint64 `json:"seconds_elapsed"`
	Figures
}

// Drill is the end of a restore drill.
type Drill struct {
	Type       string `json:"message_type"` // "drill"
	Snapshots  uint64 `json:"snapshots"`    // sampled
	Files      uint64 `json:"files"`        // restored and verified
	Bytes      uint64 `json:"bytes"`
	Live       uint64 `json:"files_compared_live"` // also with the live file
	PassedOver uint64 `json:"files_skipped"`       // no space
	Failed     uint64 `json:"files_failed"`        // failed or different
	Seed       uint64 `json:"seed"`                // for `--restore-sample-seed`
}

// Proven is what checks on one machine have proven of a repository.
type Proven struct {
	Type          string     `json:"message_type"`         // "last_verified"
	Checked       *time.Time `json:"last_check,omitempty"` // last check that read data, as in its summary
	Packs         uint64     `json:"packs"`
	Unproven      uint64     `json:"packs_unverified"`
	Since         *time.Time `json:"verified_since,omitempty"`
	Drill         *time.Time `json:"last_drill,omitempty"` // last restore sample
	DrillSnapshot string     `json:"drill_snapshot,omitempty"`
	DrillFiles    uint64     `json:"drill_files"` // as in `drill`
	DrillLive     uint64     `json:"drill_files_compared_live"`
	DrillFailed   uint64     `json:"drill_files_failed"`
	Problems      uint64     `json:"problems,omitempty"`       // of the last check
	Found         *time.Time `json:"problems_found,omitempty"` // when it ended
}

// NewBackupSummary makes the summary of a backup. id names the snapshot; it is empty if none was made.
func NewBackupSummary(t *report.Totals, id string, dryRun bool) *BackupSummary {
	d := t.Derive()
	return &BackupSummary{
		Type: "summary", DryRun: dryRun, SnapshotID: id, Workers: newPoolSizes(t.PoolSizes),
		FilesNew: t.Files.New, FilesChanged: t.Files.Changed, FilesUnmodified: t.Files.Unmodified,
		DirsNew: t.Dirs.New, DirsChanged: t.Dirs.Changed, DirsUnmodified: t.Dirs.Unmodified,
		OthersNew: t.Others.New, OthersChanged: t.Others.Changed, OthersSame: t.Others.Unmodified,
		DataBlobs: t.Blobs.New, TreeBlobs: t.Trees.New,
		DataAdded: t.Bytes.AfterDedup + t.Bytes.Trees, DataAddedPacked: t.Bytes.Stored,
		TotalFiles: t.Files.New + t.Files.Changed + t.Files.Unmodified, TotalBytes: t.Bytes.Inspected,
		BackupStart: t.Start, BackupEnd: t.Start.Add(t.Elapsed), TotalDuration: t.Elapsed.Seconds(),
		ErrorCount: t.Failures, Figures: NewFigures(t),
		Reductions: Reductions{
			CompressedBy: d.CompressedBy, DedupReduction: d.DedupReduction, TotalReduction: d.TotalReduction,
		},
	}
}

// NewRestoreSummary makes the summary of a restore.
func NewRestoreSummary(t *report.Totals, dryRun bool) *RestoreSummary {
	p := t.Progress()
	return &RestoreSummary{
		Type: "summary", DryRun: dryRun, SecondsElapsed: uint64(t.Elapsed / time.Second),
		TotalFiles: p.ObjectsTotal, FilesRestored: t.Objects.Restored, FilesSkipped: t.Objects.Kept,
		FilesDeleted: t.Objects.Deleted, TotalBytes: p.BytesTotal, BytesRestored: t.Bytes.Restored,
		ErrorCount: t.Failures, RemarkCount: t.Notes, Figures: NewFigures(t),
	}
}

// NewCheckSummary makes the summary of a check. broken are the names of damaged packs.
func NewCheckSummary(t *report.Totals, broken []string) *CheckSummary {
	return &CheckSummary{
		Type: "summary", SecondsElapsed: uint64(t.Elapsed / time.Second), NumErrors: t.Failures,
		BrokenPacks: append([]string{}, broken...), Figures: NewFigures(t),
	}
}

// NewFigures makes the figures of a job.
func NewFigures(t *report.Totals) Figures {
	f := Figures{
		Objects: t.Objects, Bytes: t.Bytes, Packs: t.Packs, TransferTime: t.Derive().TransferTime.Seconds(),
		Phases: make(map[string]float64), Stages: make(map[string]float64),
		Yielding: yielding(t), Limits: t.Limits,
	}
	for p, spent := range t.Phases {
		if spent > 0 {
			f.Phases[report.Phase(p).Key()] = spent.Seconds()
		}
	}
	for s, spent := range t.Stages {
		if spent > 0 {
			f.Stages[report.Stage(s).Key()] = spent.Seconds()
		}
	}
	if r, share := t.Stages.Bottleneck(); r != report.Nothing {
		f.Bottleneck, f.BottleneckPart = r.String(), share
	}
	return f
}
