package event

// Difference is a line of `tidemark tm compare`.
type Difference struct {
	Type       string   `json:"message_type"` // "difference"
	Modifier   string   `json:"modifier"`     // `+` added, `-` removed, `!` changed
	Path                // path, path_raw
	Bytes      uint64   `json:"bytes"`                // size of the file
	Properties []string `json:"properties,omitempty"` // that differ, such as `size` and `mtime`
}

// Comparison is the last line of `tidemark tm compare`, and a step of `tidemark tm calculatedrift`.
type Comparison struct {
	Type   string `json:"message_type"`    // "comparison"
	Source string `json:"source_snapshot"` // ID
	Target string `json:"target_snapshot"` // ID; empty: this machine
	// objects with `objects` and `bytes`, the sizes of the files among them
	Added   DifferenceSum `json:"added"`
	Removed DifferenceSum `json:"removed"`
	Changed DifferenceSum `json:"changed"`
}

// DifferenceSum is how many objects differ, and the sizes of the files among them.
type DifferenceSum struct {
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
}

// UniqueSize is a line of `tidemark tm uniquesize`.
type UniqueSize struct {
	Type         string `json:"message_type"` // "unique_size"
	Snapshot     string `json:"snapshot_id"`
	Stored       uint64 `json:"total_size"`              // compressed and encrypted bytes that only this snapshot needs
	Uncompressed uint64 `json:"total_uncompressed_size"` // before compression
}

// Destination is what `tidemark tm destinationinfo` prints.
type Destination struct {
	Type     string `json:"message_type"` // "destination"
	Name     string `json:"name"`         // last part of the location
	Kind     string `json:"kind"`         // `Local` or `Network`
	Location string `json:"location"`     // folder or address
	ID       string `json:"repository_id"`
}

// Stopping is a backup that `tidemark tm stopbackup` asked to end.
type Stopping struct {
	Type string `json:"message_type"` // "stopping"
	PID  int    `json:"pid"`          // of the process
}
