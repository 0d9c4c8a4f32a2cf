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
	Bottleneck     string             `json:"bottleneck,omitempty"`          // as `waiting_for`
	BottleneckPart float64            `json:"bottleneck_share,omitempty"`    // ratio of worker time without `idle`
	TargetAway     float64            `json:"target_away_seconds,omitempty"` // the target did not answer
	report.Limits
	// object: requests that the provider of the store charges for, repeated ones too: `put` (PUT, LIST), `get` (GET,
	// HEAD), `delete`
	Requests *report.Requests `json:"requests,omitempty"`
	Yielding
}

// Ending is the end of the summaries of most jobs.
type Ending struct {
	SecondsElapsed uint64 `json:"seconds_elapsed"`
	Figures
}

// NewEnding makes the end of the summary of a job.
func NewEnding(t *report.Totals) Ending {
	return Ending{uint64(t.Elapsed / time.Second), NewFigures(t)}
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
	Repository      string    `json:"repository_id"`         // 32 digits
	Sources         []Source  `json:"sources"`               // list of *sources*
	// why `forget` removes no snapshot of these sources by a policy
	RetentionWaits string             `json:"retention_waits,omitempty"`
	Warnings       []string           `json:"warnings,omitempty"` // such as of a damaged snapshot
	Workers        []report.PoolSizes `json:"workers,omitempty"`  // list of *workers*
	report.Derived
	Figures
}

// Yielded estimates how much longer the backup took because it yielded.
func (s *BackupSummary) Yielded() time.Duration {
	if s.Without == nil {
		return 0
	}
	const second = float64(time.Second)
	return max(0, time.Duration(s.TotalDuration*second)-time.Duration(*s.Without*second))
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

// NewFigures makes the figures of a job.
func NewFigures(t *report.Totals) Figures {
	f := Figures{
		Objects: t.Objects, Bytes: t.Bytes, Packs: t.Packs, TransferTime: t.Derive().TransferTime.Seconds(),
		Phases: make(map[string]float64), Stages: make(map[string]float64),
		Yielding: yielding(t), Limits: t.Limits, TargetAway: t.Outage.Took.Seconds(),
	}
	if t.Requests != (report.Requests{}) {
		f.Requests = &t.Requests
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
