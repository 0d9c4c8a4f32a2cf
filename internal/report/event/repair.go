package event

// Lost is an object of a snapshot that is lost.
type Lost struct {
	Type string `json:"message_type"` // "lost"
	// snapshot with a file or folder that lost data; its path, `/` for an unreadable snapshot
	Snapshot string `json:"snapshot_id"`
	Path
}

// RepairIndexSummary ends a repair of the index.
type RepairIndexSummary struct {
	Type         string   `json:"message_type"` // "summary"
	DryRun       bool     `json:"dry_run,omitempty"`
	Packs        uint64   `json:"packs"`               // examined
	Segments     uint64   `json:"index_files"`         // in use
	Damaged      uint64   `json:"index_files_damaged"` // unreadable of these
	Written      uint64   `json:"index_files_written"` // new
	Unnamed      uint64   `json:"packs_not_indexed"`   // missing from the index
	Wrong        uint64   `json:"packs_misindexed"`    // described wrongly
	Walked       uint64   `json:"packs_rescanned"`     // own table damaged, frames readable
	DamagedPacks []string `json:"damaged_packs"`       // lists
	MissingPacks []string `json:"missing_packs"`
}

// SalvagedPack is one pack of a RepairPacksSummary.
type SalvagedPack struct {
	ID      string `json:"id"`      // the pack
	Missing bool   `json:"missing"` // true if nothing of it is readable
	Frames  uint64 `json:"frames"`  // counts
	Bad     uint64 `json:"frames_damaged"`
	Saved   uint64 `json:"blobs_saved"`
}

// RepairPacksSummary ends a repair of packs.
type RepairPacksSummary struct {
	Type   string         `json:"message_type"` // "summary"
	DryRun bool           `json:"dry_run,omitempty"`
	Packs  []SalvagedPack `json:"salvaged"`     // list of *salvaged*
	Lost   uint64         `json:"objects_lost"` // files and folders that lost data
}

// ReplacedSnapshot is one snapshot of a RepairSnapshotsSummary.
type ReplacedSnapshot struct {
	ID      string `json:"id"`                    // old snapshot
	By      string `json:"replaced_by,omitempty"` // new one
	Dropped bool   `json:"dropped"`               // true if removed without a replacement
	Kept    bool   `json:"kept"`                  // true if unreadable and kept
}

// RepairSnapshotsSummary ends a repair of snapshots.
type RepairSnapshotsSummary struct {
	Type      string             `json:"message_type"` // "summary"
	DryRun    bool               `json:"dry_run,omitempty"`
	Snapshots uint64             `json:"snapshots"`    // examined
	Replaced  []ReplacedSnapshot `json:"replaced"`     // list of *replaced*
	Lost      uint64             `json:"objects_lost"` // files and folders that lost data
}
