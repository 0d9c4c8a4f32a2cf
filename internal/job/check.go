package job

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// checkNotify refuses places of reports that cannot work, since a mistake would show only when something is to be
// reported.
func checkNotify(n options.Notify) error {
	errs := []error{checkURL("healthcheck", n.Healthcheck), checkURL("notify-webhook", n.Webhook)}
	for _, to := range n.Mail.To {
		if _, err := mail.ParseAddress(to); err != nil {
			errs = append(errs, fmt.Errorf("notify-mail %q: write an address such as me@example.org or root@localhost; "+
				"several in lines of their own", to))
		}
	}
	if _, port, err := net.SplitHostPort(n.Mail.Server); err == nil && !validPort(port) {
		errs = append(errs, fmt.Errorf("mail-server %q: write host:port with a port of 1 to 65535", n.Mail.Server))
	}
	if n.MetricsFile != "" && !filepath.IsAbs(n.MetricsFile) {
		errs = append(errs, fmt.Errorf("metrics-file %q: write an absolute path", n.MetricsFile))
	}
	path, isSocket := strings.CutPrefix(n.MetricsAt, "unix:")
	_, port, err := net.SplitHostPort(n.MetricsAt)
	if n.MetricsAt != "" && (isSocket && !filepath.IsAbs(path) || !isSocket && (err != nil || !validPort(port))) {
		errs = append(errs, fmt.Errorf("metrics-listen %q: write an address such as 127.0.0.1:9712 or "+
			"unix:/run/tidemark.metrics", n.MetricsAt))
	}
	return errors.Join(errs...)
}

func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// checkURL refuses what cannot be requested.
func checkURL(option, text string) error {
	if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("%s: write a URL such as https://host/path", option)
	}
	return nil
}

// rivals returns the jobs that would remove each other's snapshots, by name.
func rivals(all []*Job) map[string]error {
	found := map[string]error{}
	for i, a := range all {
		for _, b := range all[:i] {
			keep, err := ParseKeep(a.Spec.Job().Keep)
			other, err2 := ParseKeep(b.Spec.Job().Keep)
			if err != nil || err2 != nil || reflect.DeepEqual(keep, other) || !slices.Equal(a.Sources, b.Sources) {
				continue
			}
			if repositoryOf(a) == repositoryOf(b) {
				err := fmt.Errorf("jobs in conflict: the jobs %s and %s have the same sources and repository, so each would "+
					"remove snapshots of the other: give both the same KEEPSNAPSHOTS", b.Name, a.Name)
				found[a.Name], found[b.Name] = err, err
			}
		}
	}
	return found
}

// repositoryOf returns the location of a repository in a form that is equal for most of its names.
func repositoryOf(j *Job) string {
	at, err := location.Parse(j.Repository)
	if err == nil && at.Disk != (location.Disk{}) {
		return j.Repository
	}
	if err != nil || at.OnServer() {
		return strings.ToLower(j.Repository) // servers do not distinguish case
	}
	if real, err := filepath.EvalSymlinks(at.Folder); err == nil {
		return real
	}
	return at.Folder
}
