package service

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// Config is what the definition of the service is made from.
type Config struct {
	System      bool          // for the system; otherwise for the user
	Program     string        // absolute
	OptionFile  string        // absolute
	Writable    []string      // local repositories, caches, files of metrics and logs; absolute
	Credentials []string      // names of secrets in the folder credstore
	Removable   bool          // a repository is on a disk that may be unmounted
	Commands    bool          // a job runs commands, which may need any right
	StopTime    time.Duration // of the service
}

// Add takes over what a job needs.
func (c *Config) Add(j *job.Job, mounts []localfs.Mount) {
	c.StopTime = max(c.StopTime, j.Grace(true)+reporting)
	if at, err := location.Parse(j.Repository); err == nil && at.Disk != (location.Disk{}) {
		c.Removable = true
	} else if err == nil && !at.OnServer() {
		c.Writable = append(c.Writable, at.Folder)
		c.Removable = c.Removable || len(localfs.MountOf(at.Folder, mounts).Path) > len("/")
	}
	if j.Spec.FileOf("cache-dir") != "" {
		c.Writable = append(c.Writable, j.Spec.Cache().Dir)
	}
	notify := j.Spec.Notify()
	if notify.MetricsFile != "" {
		c.Writable = append(c.Writable, filepath.Dir(notify.MetricsFile))
	}
	errorLog, sessionLog := j.Spec.Logs()
	for _, log := range []string{errorLog, sessionLog} {
		if filepath.IsAbs(log) {
			c.Writable = append(c.Writable, filepath.Dir(log))
		}
	}
	if address, ok := strings.CutPrefix(notify.MetricsAt, "unix:"); ok {
		c.Writable = append(c.Writable, filepath.Dir(address))
	}
	hooks, keys, share := j.Spec.Job().Hooks, j.Spec.Keys(), j.Spec.Share()
	c.Commands = c.Commands || hooks.Before+hooks.After+hooks.Failure+keys.PasswordCommand+share.PasswordCommand != "" ||
		j.Spec.SourceSnapshot() != "off" || len(notify.Mail.To) > 0 && notify.Mail.Server == ""
	for _, path := range []string{keys.PasswordFile, keys.KeyFile, share.PasswordFile, share.Credentials,
		notify.Mail.PasswordFile} {
		if name, ok := options.Credential(path); ok && !slices.Contains(c.Credentials, name) {
			c.Credentials = append(c.Credentials, name)
		}
	}
}

// reporting is the time in which a service that ends kills the last step and sends notifications.
const reporting = 30 * time.Second

func (c *Config) stopSeconds() int { return int(max(c.StopTime, 3*reporting).Seconds()) }

// check refuses what cannot stand in a definition.
func (c *Config) check() error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	for _, path := range append([]string{c.Program, c.OptionFile}, c.Writable...) {
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, control) {
			return fmt.Errorf("%q: use an absolute path without control characters", path)
		}
	}
	for _, name := range c.Credentials {
		if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`).MatchString(name) {
			return fmt.Errorf("credential %q: use a name of letters, digits, dots and hyphens", name)
		}
	}
	return nil
}
