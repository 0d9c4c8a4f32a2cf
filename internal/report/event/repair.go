package event

// Lost is an object of a snapshot that is lost.
type Lost struct {
	Type string `json:"message_type"` // "lost"
	// snapshot with a file or folder that lost data; its path, `/` for an unreadable snapshot
	Snapshot string `json:"snapshot_id"`
	Path
}
