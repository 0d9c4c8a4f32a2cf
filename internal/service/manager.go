package service

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// Manager starts the service at boot or at login, and again after a failure.
type Manager interface {
	// Text returns the definition.
	Text(c *Config) (string, error)
	// Install writes the definition and starts the service. changed is false if the definition was the same.
	Install(ctx context.Context, text string) (changed bool, err error)
	// Uninstall stops the service and removes the definition. found is false if there is none.
	Uninstall(ctx context.Context) (found bool, err error)
	// State returns the state of the service.
	State(ctx context.Context) (State, error)
}

// State is the state of the service as its manager reports it.
type State struct {
	Manager   string `json:"manager"`           // `systemd` or `launchd`
	Path      string `json:"path"`              // of the unit or the property list
	Installed bool   `json:"installed"`         // true if that file exists
	Enabled   string `json:"enabled,omitempty"` // such as `enabled`: it starts by itself
	Active    string `json:"active,omitempty"`  // such as `active`
	Sub       string `json:"sub,omitempty"`     // such as `running`
	Since     string `json:"since,omitempty"`   // if it runs, as systemd prints it
	Changed   bool   `json:"changed,omitempty"` // of `install` and `uninstall`: true if the file changed
}

// New returns the manager of this system, for the system or for the user of env.
func New(system bool, env options.Env) (Manager, error) {
	home, _ := env("HOME")
	config, _ := env("XDG_CONFIG_HOME")
	if !system && !filepath.IsAbs(home) {
		return nil, errors.New("HOME is not set: set it to the home directory")
	}
	if !filepath.IsAbs(config) {
		config = filepath.Join(home, ".config")
	}
	switch {
	case runtime.GOOS == "darwin" && system:
		return &Launchd{Folder: "/Library/LaunchDaemons"}, nil
	case runtime.GOOS == "darwin":
		return &Launchd{Folder: filepath.Join(home, "Library", "LaunchAgents"), User: true}, nil
	case system:
		return &Systemd{Folder: "/etc/systemd/system"}, nil
	}
	return &Systemd{Folder: filepath.Join(config, "systemd", "user"), User: true}, nil
}

// Available reports whether this machine has a manager that runs.
func Available() bool {
	if runtime.GOOS == "darwin" {
		return true
	}
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// EndsAtLogout returns the name of the user whose service ends when the last session ends; "" if it goes on.
func EndsAtLogout() string {
	u, err := user.Current()
	if err != nil || runtime.GOOS != "linux" {
		return ""
	}
	if _, err := os.Lstat(filepath.Join("/var/lib/systemd/linger", u.Username)); err == nil {
		return ""
	}
	return u.Username
}
