package event

// Hook is how a command of the option file around a backup ended.
type Hook struct {
	Type string `json:"message_type"` // "hook"
	// `before-command`, `after-command`, `failure-command`, `after-command of a killed run` or `snapshot-end-command`
	Step      string `json:"step"`
	ExitCode  int    `json:"exit_code"`           // -1: a signal ended it
	Error     string `json:"error,omitempty"`     // why it failed
	Output    string `json:"output,omitempty"`    // its last 64 KiB
	Truncated bool   `json:"truncated,omitempty"` // there was more
}
