package event

// BackupVersion is a version of an object that `tidemark dsmc query backup` lists.
type BackupVersion struct {
	Type     string `json:"message_type"` // "backup_version"
	Path            // of the object
	Size     uint64 `json:"size"`        // bytes
	Stored   string `json:"backup_date"` // of the oldest snapshot with this version
	Active   bool   `json:"active"`      // the newest snapshot that covers the path has this version
	Snapshot string `json:"snapshot"`    // ID of the newest snapshot with this version
}

// FileSpace is a source that `tidemark dsmc query filespace` lists.
type FileSpace struct {
	Type   string `json:"message_type"` // "filespace"
	Number int    `json:"number"`       // position in the list, from 1
	Path          // of the source
	FSType string `json:"type"`        // file system there today
	Last   string `json:"last_backup"` // newest backup
}
