package service

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// label is the name of the service in launchd.
const label = "com.github.tidemark-backup.tidemark"

// exitTimeOut is the key of the time in which the service has to stop.
const exitTimeOut = "<key>ExitTimeOut</key>"

// plistHead is how a property list begins that Install may replace and Uninstall may remove.
const plistHead = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ` + written + " -->\n"

// Launchd is the service manager of macOS.
type Launchd struct {
	Folder string // of property lists
	User   bool   // in the session of the user
}

// Path returns the file of the property list.
func (l *Launchd) Path() string { return filepath.Join(l.Folder, label+".plist") }

// Text returns the property list.
//
// launchd holds back the CPU use and the I/O of each type of process but Interactive, also on an idle machine
// (launchd.plist(5)); Background is the throttle of backupd. The steps of the service set their own policy instead.
func (l *Launchd) Text(c *Config) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	if len(c.Credentials) > 0 {
		return "", errors.New("launchd keeps no secrets: write the path of the file instead of $CREDENTIALS_DIRECTORY")
	}
	var b strings.Builder
	b.WriteString(plistHead + "<plist version=\"1.0\">\n<dict>\n\t<key>Label</key>\n\t<string>" + label + `</string>
	<key>ProgramArguments</key>
	<array>
`)
	for _, word := range []string{c.Program, "daemon", "--option-file", c.OptionFile} {
		b.WriteString("\t\t<string>" + escaped(word) + "</string>\n")
	}
	b.WriteString("\t</array>\n")
	if !l.User { // the session of a user sets these; a daemon gets PATH alone
		b.WriteString(`	<key>EnvironmentVariables</key>
	<dict>
		<key>HOME</key>
		<string>/var/root</string>
		<key>TMPDIR</key>
		<string>/private/var/tmp</string>
	</dict>
`)
	}
	b.WriteString("\t<key>StandardErrorPath</key>\n\t<string>" + escaped(l.log()) + `</string>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>30</integer>
	` + exitTimeOut + `
	<integer>` + strconv.Itoa(c.stopSeconds()) + `</integer>
	<key>ProcessType</key>
	<string>Interactive</string>
</dict>
</plist>
`)
	return b.String(), nil
}

// Install writes the property list and starts the service. changed is false if the list was the same; the service is
// then started if it does not run.
func (l *Launchd) Install(ctx context.Context, text string) (changed bool, err error) {
	before, err := read(l.Path(), plistHead)
	if err != nil {
		return false, err
	}
	state, err := l.State(ctx)
	if err != nil {
		return false, err
	}
	changed = before != text
	if !changed && state.Active != "" {
		return false, nil
	}
	// Stopped first: after an error, the list still differs, so the next Install does not take the old one for the new.
	if state.Active != "" {
		if err := l.bootout(ctx, before); err != nil {
			return false, err
		}
	}
	if changed {
		if err := write(l.Path(), text); err != nil {
			return false, err
		}
	}
	return changed, l.bootstrap(ctx)
}

// Uninstall stops the service and removes the property list and the log. found is false if there is none.
func (l *Launchd) Uninstall(ctx context.Context) (found bool, err error) {
	before, err := read(l.Path(), plistHead)
	if err != nil {
		return false, err
	}
	state, err := l.State(ctx)
	if err != nil || before == "" && state.Active == "" {
		return before != "", err
	}
	if state.Active != "" {
		if err := l.bootout(ctx, before); err != nil {
			return true, err
		}
	}
	for _, path := range []string{l.Path(), l.log()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true, fmt.Errorf("remove the files of the service: %w", err)
		}
	}
	return true, nil
}

// bootout stops the service and waits until launchd has forgotten it, which is after the process has ended: launchctl
// returns before that, with or without error 36. definition is the property list that was loaded.
func (l *Launchd) bootout(ctx context.Context, definition string) error {
	_, err := l.call(ctx, "bootout", l.domain()+"/"+label)
	if err != nil && !slices.Contains([]int{noProcess, inProgress, noService}, status(err)) {
		return err
	}
	end := time.Now().Add(stopTime(definition) + settling)
	for {
		state, err := l.State(ctx)
		if err != nil || state.Active == "" {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the service does not stop: try again when its step has ended: launchd reports its state as %q",
				state.Sub)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// bootstrap starts the service. launchd refuses with error 5, 36 or 37 for some seconds after the service was stopped,
// and with 5 or 119 if it was disabled.
func (l *Launchd) bootstrap(ctx context.Context) error {
	end := time.Now().Add(settling)
	for enabled := false; ; {
		_, err := l.call(ctx, "bootstrap", l.domain(), l.Path())
		if !slices.Contains([]int{refused, inProgress, already, disabled}, status(err)) || time.Now().After(end) {
			return err
		}
		if !enabled {
			if _, err := l.call(ctx, "enable", l.domain()+"/"+label); err != nil {
				return err
			}
			enabled = true
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// Exit statuses of launchctl: errors of macOS, and from 107 on those of launchd.
const (
	noProcess  = 3
	refused    = 5 // EIO
	inProgress = 36
	already    = 37
	noService  = 113 // launchd does not know the service
	disabled   = 119
)

// settling is how long launchd is asked again after a service has ended. It was seen to refuse a start for 5 s
// (https://github.com/headroomlabs-ai/headroom/issues/1289).
const settling = 30 * time.Second

// pause waits until launchd is asked again.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// status returns the error that launchctl ended with, as macOS numbers it; 0 if it did not run, or without an error.
func status(err error) int {
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return failed.ExitCode()
	}
	return 0
}

// stopTime returns after how long launchd kills a service of this definition: 20 s by default (launchd.plist(5)).
func stopTime(definition string) time.Duration {
	seconds := 20
	if _, rest, ok := strings.Cut(definition, exitTimeOut); ok {
		if _, err := fmt.Sscanf(strings.TrimSpace(rest), "<integer>%d", &seconds); err != nil {
			seconds = 20
		}
	}
	return time.Duration(seconds) * time.Second
}

// log returns the file for what the service writes to its standard error.
func (l *Launchd) log() string { return filepath.Join(filepath.Dir(l.Folder), "Logs", "tidemark.log") }

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}

// State asks launchd for the state of the service.
func (l *Launchd) State(ctx context.Context) (State, error) {
	state := State{Manager: "launchd", Path: l.Path()}
	before, err := read(l.Path(), plistHead)
	if err != nil {
		return state, err
	}
	state.Installed = before != ""
	out, err := l.call(ctx, "print", l.domain()+"/"+label)
	var failed *exec.ExitError
	if errors.As(err, &failed) { // launchd does not know it
		return state, nil
	} else if err != nil {
		return state, err
	}
	state.Active, state.Enabled = "loaded", "enabled"
	for line := range strings.Lines(out) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && name == "state" && state.Sub == "" {
			state.Sub = value
		}
	}
	return state, nil
}

// domain returns the part of launchd to which the service belongs.
func (l *Launchd) domain() string {
	if l.User {
		return "gui/" + strconv.Itoa(os.Getuid())
	}
	return "system"
}

// call runs launchctl.
func (l *Launchd) call(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "launchctl", args...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("launchd is not available")
	}
	if err != nil {
		return "", fmt.Errorf("launchctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
