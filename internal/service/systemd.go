package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoSystemd: there is no systemd, or it does not answer.
var ErrNoSystemd = errors.New("systemd is not available: run 'tidemark daemon --once' every few minutes by cron")

// unitName is the name of the unit.
const unitName = "tidemark.service"

// Systemd is the service manager of most Linux systems.
type Systemd struct {
	Folder string // of units
	User   bool   // the manager of the user
}

// Path returns the file of the unit.
func (s *Systemd) Path() string { return filepath.Join(s.Folder, unitName) }

// Install writes the unit and starts the service. changed is false if the unit was the same; the service is then
// started if it does not run.
func (s *Systemd) Install(ctx context.Context, unit string) (changed bool, err error) {
	before, err := read(s.Path(), unitHead)
	if err != nil {
		return false, err
	}
	if _, err := exec.LookPath("systemctl"); err != nil {
		return false, ErrNoSystemd
	}
	if before != unit {
		if err := write(s.Path(), unit); err != nil {
			return false, fmt.Errorf("write the unit: %w", err)
		}
	}
	if _, err := s.call(ctx, "daemon-reload"); err != nil {
		return before != unit, err
	}
	if _, err := s.call(ctx, "enable", "--now", unitName); err != nil {
		return before != unit, err
	}
	if before != "" && before != unit {
		_, err = s.call(ctx, "restart", unitName)
	}
	return before != unit, err
}

// Uninstall stops the service and removes the unit. found is false if there is none.
func (s *Systemd) Uninstall(ctx context.Context) (found bool, err error) {
	before, err := read(s.Path(), unitHead)
	if err != nil || before == "" {
		return false, err
	}
	if _, err := s.call(ctx, "disable", "--now", unitName); err != nil {
		return true, err
	}
	if err := os.Remove(s.Path()); err != nil {
		return true, fmt.Errorf("remove the unit: %w", err)
	}
	_, err = s.call(ctx, "daemon-reload")
	return true, err
}

// State asks systemd for the state of the service.
func (s *Systemd) State(ctx context.Context) (State, error) {
	state := State{Manager: "systemd", Path: s.Path()}
	before, err := read(s.Path(), unitHead)
	if err != nil {
		return state, err
	}
	state.Installed = before != ""
	out, err := s.call(ctx, "show", "--property=UnitFileState,ActiveState,SubState,ActiveEnterTimestamp", unitName)
	if err != nil {
		return state, err
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "UnitFileState":
			state.Enabled = value
		case "ActiveState":
			state.Active = value
		case "SubState":
			state.Sub = value
		case "ActiveEnterTimestamp":
			state.Since = value
		}
	}
	if state.Active != "active" {
		state.Since = ""
	}
	return state, nil
}

// call runs systemctl.
func (s *Systemd) call(ctx context.Context, args ...string) (string, error) {
	if s.User {
		args = append([]string{"--user"}, args...)
	}
	var message strings.Builder
	c := exec.CommandContext(ctx, "systemctl", args...)
	c.Stderr = &message
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", ErrNoSystemd
	}
	text := strings.TrimSpace(message.String())
	if strings.Contains(text, "not been booted with systemd") || strings.Contains(text, "Failed to connect to bus") {
		return "", fmt.Errorf("%w (%s)", ErrNoSystemd, text)
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return string(out), nil
}
