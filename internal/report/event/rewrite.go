package event

// ChangedSnapshot is a snapshot in whose place a new one was put.
type ChangedSnapshot struct {
	Type   string   `json:"message_type"` // "changed"
	DryRun bool     `json:"dry_run,omitempty"`
	Old    string   `json:"old_snapshot_id"`           // the original
	New    string   `json:"new_snapshot_id,omitempty"` // none in a dry run
	Tags   []string `json:"tags"`                      // of the new one
	Files  uint64   `json:"files_excluded,omitempty"`  // left out by `rewrite`
	Dirs   uint64   `json:"dirs_excluded,omitempty"`
	Others uint64   `json:"others_excluded,omitempty"`
	Bytes  uint64   `json:"bytes_excluded,omitempty"`
}

// RewriteSummary ends a change of tags, and a rewrite.
type RewriteSummary struct {
	Type      string `json:"message_type"` // "summary"
	DryRun    bool   `json:"dry_run,omitempty"`
	Snapshots uint64 `json:"snapshots,omitempty"`       // examined by `rewrite`
	Changed   uint64 `json:"changed_snapshots"`         // replaced by new ones
	Empty     uint64 `json:"empty_snapshots,omitempty"` // kept, since nothing would be left
	Forgotten bool   `json:"originals_removed"`         // by --forget
}
