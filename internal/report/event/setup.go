package event

// Setup is the end of `tidemark setup`.
type Setup struct {
	Type       string   `json:"message_type"`               // "setup"
	Sources    []string `json:"sources"`                    // absolute paths
	Repository string   `json:"repository"`                 // location
	ID         string   `json:"repository_id"`              // 32 digits
	Policy     string   `json:"policy"`                     // of the option file
	File       string   `json:"option_file"`                // path
	Written    bool     `json:"option_file_written"`        // false if it was up to date
	Copy       string   `json:"option_file_copy,omitempty"` // copy of the earlier file
	Confirmed  bool     `json:"recovery_confirmed"`         // false: run `key recovery --confirm`
	Snapshot   string   `json:"snapshot_id,omitempty"`      // of the first backup
	Proven     string   `json:"restored,omitempty"`         // file that was restored as proof
	Bytes      uint64   `json:"restored_bytes"`             // its size
	Compared   bool     `json:"compared_with_original"`     // false: compared with its hash only
}

// SetupFrom is the end of `tidemark setup --from`.
type SetupFrom struct {
	Type     string   `json:"message_type"`        // "setup_from"
	Host     string   `json:"host"`                // whose option file it is
	Snapshot string   `json:"snapshot_id"`         // that has it
	File     string   `json:"option_file"`         // path
	Written  bool     `json:"option_file_written"` // false if there was one, which stays
	KeyFile  string   `json:"key_file"`            // of this machine, for the repository; empty: it could not be made
	Jobs     []string `json:"jobs"`                // names
	Missing  []string `json:"missing"`             // what the jobs need and this machine does not have, one line each
	Restore  []string `json:"restore"`             // commands: of the newest snapshot of each set of sources
}
