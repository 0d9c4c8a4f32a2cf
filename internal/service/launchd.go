package service

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// label is the name of the service in launchd.
const label = "com.github.tidemark-backup.tidemark"

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

func (l *Launchd) file() file { return file{l.Path(), plistHead} }

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
		b.WriteString("\t\t<string>")
		if err := xml.EscapeText(&b, []byte(word)); err != nil {
			return "", fmt.Errorf("write %q as XML: %w", word, err)
		}
		b.WriteString("</string>\n")
	}
	b.WriteString(`	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ThrottleInterval</key>
	<integer>30</integer>
	<key>ExitTimeOut</key>
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
	before, err := l.file().read()
	if err != nil {
		return false, err
	}
	state, err := l.State(ctx)
	if err != nil {
		return false, err
	}
	if before == text && state.Active != "" {
		return false, nil
	}
	if before != text {
		if err := l.file().write(text); err != nil {
			return false, err
		}
	}
	if state.Active != "" {
		if _, err := l.call(ctx, "bootout", l.domain()+"/"+label); err != nil {
			return before != text, err
		}
	}
	_, err = l.call(ctx, "bootstrap", l.domain(), l.Path())
	return before != text, err
}

// Uninstall stops the service and removes the property list. found is false if there is none.
func (l *Launchd) Uninstall(ctx context.Context) (found bool, err error) {
	before, err := l.file().read()
	if err != nil || before == "" {
		return false, err
	}
	state, err := l.State(ctx)
	if err == nil && state.Active != "" {
		_, err = l.call(ctx, "bootout", l.domain()+"/"+label)
	}
	if err != nil {
		return true, err
	}
	if err := os.Remove(l.Path()); err != nil {
		return true, fmt.Errorf("remove the property list: %w", err)
	}
	return true, nil
}

// State asks launchd for the state of the service.
func (l *Launchd) State(ctx context.Context) (State, error) {
	state := State{Manager: "launchd", Path: l.Path()}
	before, err := l.file().read()
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
		return "", ErrNoLaunchd
	}
	if err != nil {
		return "", fmt.Errorf("launchctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
