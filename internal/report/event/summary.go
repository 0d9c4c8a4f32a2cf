package event

import (
	"time"

	"github.com/tidemark-backup/tidemark/internal/report"
)

// Figures are the numbers of the session report; every summary has them.
type Figures struct {
	Objects        report.ObjectsOf[uint64] `json:"objects"`
	Bytes          report.BytesOf[uint64]   `json:"bytes"`
	Packs          report.PacksOf[uint64]   `json:"packs"`
	TransferTime   float64                  `json:"transfer_seconds"`
	Phases         map[string]float64       `json:"phase_seconds"`
	Stages         map[string]float64       `json:"stage_seconds"`
	Bottleneck     string                   `json:"bottleneck,omitempty"`
	BottleneckPart float64                  `json:"bottleneck_share,omitempty"`
	Yielding
}

// Reductions are the ratios of the session report of a backup; the other jobs reduce nothing.
type Reductions struct {
	CompressedBy   float64 `json:"compressed_by"`
	DedupReduction float64 `json:"deduplication_reduction"`
	TotalReduction float64 `json:"total_data_reduction"`
}

// BackupSummary ends a backup.
type BackupSummary struct {
	Type            string    `json:"message_type"` // "summary"
	DryRun          bool      `json:"dry_run,omitempty"`
	FilesNew        uint64    `json:"files_new"`
	FilesChanged    uint64    `json:"files_changed"`
	FilesUnmodified uint64    `json:"files_unmodified"`
	DirsNew         uint64    `json:"dirs_new"`
	DirsChanged     uint64    `json:"dirs_changed"`
	DirsUnmodified  uint64    `json:"dirs_unmodified"`
	OthersNew       uint64    `json:"others_new"`
	OthersChanged   uint64    `json:"others_changed"`
	OthersSame      uint64    `json:"others_unmodified"`
	DataBlobs       uint64    `json:"data_blobs"`
	TreeBlobs       uint64    `json:"tree_blobs"`
	DataAdded       uint64    `json:"data_added"`
	DataAddedPacked uint64    `json:"data_added_packed"`
	TotalFiles      uint64    `json:"total_files_processed"`
	TotalBytes      uint64    `json:"total_bytes_processed"`
	BackupStart     time.Time `json:"backup_start"`
	BackupEnd       time.Time `json:"backup_end"`
	TotalDuration   float64   `json:"total_duration"`
	ErrorCount      uint64    `json:"error_count"`
	SnapshotID      string    `json:"snapshot_id,omitempty"`
	Workers         []Crews   `json:"workers,omitempty"`
	Reductions
	Figures
}

// RestoreSummary ends a restore.
type RestoreSummary struct {
	Type           string `json:"message_type"` // "summary"
	DryRun         bool   `json:"dry_run,omitempty"`
	SecondsElapsed uint64 `json:"seconds_elapsed"`
	TotalFiles     uint64 `json:"total_files"`
	FilesRestored  uint64 `json:"files_restored"`
	FilesSkipped   uint64 `json:"files_skipped"`
	FilesDeleted   uint64 `json:"files_deleted"`
	TotalBytes     uint64 `json:"total_bytes"`
	BytesRestored  uint64 `json:"bytes_restored"`
	ErrorCount     uint64 `json:"error_count"`
	RemarkCount    uint64 `json:"remark_count"`
	Figures
}

// CheckSummary ends a check.
type CheckSummary struct {
	Type           string   `json:"message_type"` // "summary"
	SecondsElapsed uint64   `json:"seconds_elapsed"`
	NumErrors      uint64   `json:"num_errors"`
	BrokenPacks    []string `json:"broken_packs"`
	RepairIndex    bool     `json:"suggest_repair_index"`
	Prune          bool     `json:"suggest_prune"`
	Figures
}

// PruneSummary ends a prune.
type PruneSummary struct {
	Type           string   `json:"message_type"` // "summary"
	DryRun         bool     `json:"dry_run,omitempty"`
	Snapshots      uint64   `json:"snapshots"`
	PacksBefore    uint64   `json:"packs_before"`
	BytesBefore    uint64   `json:"bytes_before"`
	PacksRemoved   uint64   `json:"packs_removed"`
	BytesRemoved   uint64   `json:"bytes_removed"`
	PacksKept      uint64   `json:"packs_kept"`
	BytesKept      uint64   `json:"bytes_kept"`
	PacksWritten   uint64   `json:"packs_written"`
	BytesWritten   uint64   `json:"bytes_written"`
	PacksAfter     uint64   `json:"packs_after"`
	BytesAfter     uint64   `json:"bytes_after"`
	IndexFreed     int64    `json:"index_bytes_freed"`
	BytesFreed     int64    `json:"bytes_freed"`
	PacksMarked    uint64   `json:"packs_marked"`
	BytesMarked    uint64   `json:"bytes_marked"`
	PacksRepacked  uint64   `json:"packs_repacked"`
	BytesRepacked  uint64   `json:"bytes_repacked"`
	BytesRewritten uint64   `json:"bytes_rewritten"`
	PacksPending   uint64   `json:"packs_pending"`
	BytesPending   uint64   `json:"bytes_pending"`
	PacksPardoned  uint64   `json:"packs_pardoned"`
	PacksHeld      uint64   `json:"packs_held"`
	PacksDamaged   uint64   `json:"packs_damaged"`
	BytesUnused    uint64   `json:"bytes_unused"`
	Pending        bool     `json:"pending"`
	Waiting        []string `json:"waiting_for"`
	SecondsElapsed uint64   `json:"seconds_elapsed"`
	Figures
}

// NewBackupSummary makes the summary of a backup. id names the snapshot; it is empty if none was made.
func NewBackupSummary(t *report.Totals, id string, dryRun bool) *BackupSummary {
	d := t.Derive()
	return &BackupSummary{
		Type: "summary", DryRun: dryRun, SnapshotID: id, Workers: newCrews(t.Crews),
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
		Yielding: yielding(t),
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
