package event

// Service is the state of the service as the service manager reports it.
type Service struct {
	Type      string `json:"message_type"`      // "service"
	Manager   string `json:"manager"`           // `systemd` or `launchd`
	Path      string `json:"path"`              // of the unit or the property list
	Installed bool   `json:"installed"`         // true if that file exists
	Changed   bool   `json:"changed,omitempty"` // of `install` and `uninstall`: true if the file changed
	Enabled   string `json:"enabled,omitempty"` // such as `enabled`: it starts by itself
	Active    string `json:"active,omitempty"`  // such as `active`
	Sub       string `json:"sub,omitempty"`     // such as `running`
	Since     string `json:"since,omitempty"`   // if it runs, as systemd prints it
}
