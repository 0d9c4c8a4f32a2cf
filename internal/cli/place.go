package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/processors"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

// place is where a repository is: a folder, or a folder on an SMB share.
type place struct {
	folder string // absolute; "": on the share
	share  smb.Target
}

// place returns where the repository is.
func (a *app) place() (place, error) {
	location := a.spec.Repository().Location
	if location == "" {
		return place{}, usagef("name a repository with --repo or TIDEMARK_REPOSITORY: this user has no home directory")
	}
	return placeAt(location)
}

// placeAt reads what a user named as a place.
func placeAt(location string) (place, error) {
	scheme, rest, found := strings.Cut(location, "://")
	switch {
	case found && scheme == "file":
		location = rest
	case found && strings.EqualFold(scheme, "smb"):
		target, err := smb.Parse(smb.Scheme + rest)
		if err != nil {
			return place{}, usagef("repository: %w", err)
		}
		return place{share: target}, nil
	case found: // not quoted as a whole: there may be a password in it
		if strings.ContainsFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) }) {
			scheme = "..."
		}
		return place{}, usagef("repository %s://...: this version keeps repositories in folders, and on SMB shares as "+
			"smb://user@host/share/path", scheme)
	case halfAddress(location):
		return place{}, usagef("the repository looks like the address of a share: write it as smb://user@host/share/path, or put ./ " +
			"before the name of a folder")
	case otherKind(location) != "":
		return place{}, usagef("repository %s:...: this version keeps repositories in folders, and on SMB shares as "+
			"smb://user@host/share/path; put ./ before the name of a folder", otherKind(location))
	default:
		location = strings.TrimPrefix(location, "local:")
	}
	path, err := filepath.Abs(location)
	if err != nil {
		return place{}, fmt.Errorf("find repository: %w", err)
	}
	return place{folder: path}, nil
}

// halfAddress reports whether a location is one of the other ways in which people name a share. As a folder it would be
// made on the disk, or shown with the password that is in it.
func halfAddress(location string) bool {
	lower := strings.ToLower(location)
	return strings.HasPrefix(lower, "smb:") || strings.HasPrefix(lower, "cifs:") || strings.HasPrefix(location, `\\`) ||
		strings.HasPrefix(location, "//") && strings.Contains(location, "@")
}

// otherKind returns the word with which other programs say that a repository is not in a folder; "" without one. A folder of
// that name would be made, and be taken for a copy elsewhere.
func otherKind(location string) string {
	word, _, found := strings.Cut(location, ":")
	if found && slices.Contains([]string{"azure", "b2", "gs", "rclone", "rest", "s3", "sftp", "ssh", "swift"}, strings.ToLower(word)) {
		return word
	}
	return ""
}

// onShare reports whether it is a folder of a share that this program talks to by itself.
func (p place) onShare() bool { return p.folder == "" }

// String names the place for people. It holds no secret.
func (p place) String() string {
	if p.onShare() {
		return p.share.String()
	}
	return p.folder
}

// remote reports whether the place is, or will be, on another machine. Where that cannot be found out it is not.
func (p place) remote(devices *device.Finder) bool { return p.medium(devices, "") == device.Remote }

// medium tells what the place lies on, also before it is made. word is that of --medium: it says nothing about a share,
// which is on another machine for certain.
func (p place) medium(devices *device.Finder, word string) device.Medium {
	if p.onShare() {
		return device.Remote
	}
	return medium(devices, word, p.folder)
}

// openPlace opens what is at a place; store.ErrNotExist: nothing.
func (a *app) openPlace(ctx context.Context, p place) (store.Store, error) {
	if p.onShare() {
		return a.connectStore(ctx, p.share, smb.Open)
	}
	st, err := local.Open(p.folder, a.gate(nil, p.folder))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says where
	}
	return a.patient(st), nil
}

// createPlace makes the folders of a repository.
func (a *app) createPlace(ctx context.Context, p place) (store.Store, error) {
	if p.onShare() {
		return a.connectStore(ctx, p.share, smb.Create)
	}
	st, err := local.Create(p.folder, a.gate(nil, p.folder))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says where
	}
	return a.patient(st), nil
}

// patient repeats what fails for a moment, and counts what comes.
func (a *app) patient(st store.Store) store.Store {
	policy := retry.DefaultPolicy()
	policy.Notify = a.impatience
	policy.Back = func() { a.print.Note("the target is back") }
	return retry.Wrap(&metered{st, &a.received}, policy)
}

// impatience tells of something that is tried again.
func (a *app) impatience(what string, err error, wait time.Duration) {
	why := strings.TrimPrefix(store.Brief(err).Error(), what+": ")
	a.print.Note(fmt.Sprintf("%s: %s; trying again in %s", what, why, human.About(wait)))
}

// connectStore connects to the share of a repository. The store repeats by itself what a lost connection has undone.
func (a *app) connectStore(ctx context.Context, t smb.Target,
	begin func(context.Context, smb.Target, smb.Options) (*smb.Store, error),
) (store.Store, error) {
	st, err := a.connect(ctx, t, begin)
	if err != nil {
		return nil, err
	}
	return &metered{st, &a.received}, nil
}

// connect begins to use a share until the end of the run. Whoever mistyped the password may try again.
func (a *app) connect(ctx context.Context, t smb.Target,
	begin func(context.Context, smb.Target, smb.Options) (*smb.Store, error),
) (*smb.Store, error) {
	if a.logon == nil {
		a.logon = &unlock.Logon{Share: a.spec.Share()}
		a.logon.Tickets.Cache, _ = a.Env("KRB5CCNAME")
		a.logon.Tickets.Config, _ = a.Env("KRB5_CONFIG")
		if terminal := unlock.OpenTerminal(a.Err); terminal != nil {
			a.logon.Asker = terminal
		}
	}
	for i := 1; ; i++ {
		st, err := begin(ctx, t, a.shareOptions(t))
		if errors.Is(err, smb.ErrLogon) && a.logon.Asked() && i < attempts {
			a.logon.Forget()
			a.print.Show(fmt.Sprintf("%v\n", err))
			continue
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller says where
		}
		a.shares = append(a.shares, st)
		return st, nil
	}
}

// shareOptions say how to use a share: with as many sessions as there are uploads, all of them through one gate.
func (a *app) shareOptions(t smb.Target) smb.Options {
	s := a.spec.Share()
	o := smb.Options{
		Credentials: func(ctx context.Context) (smb.Secret, error) { return a.logon.Secret(ctx, t) },
		Sessions:    a.sessions(), Encrypt: s.Encrypt, Sign: s.Sign,
		Patience: smb.Patience{Notify: func(err error, wait time.Duration) {
			a.print.Note(fmt.Sprintf("%v; trying again in %s", err, human.About(wait)))
		}, Back: func() { a.print.Note(t.Host + " is back") }},
	}
	switch s.Verify {
	case "full":
		o.Verify = smb.VerifyFull
	case "off":
		o.Verify = smb.VerifyOff
	}
	if house := a.gates(); house != nil {
		o.Pass = house.Remote(t.Host)
	}
	return o
}

// sessions is how many connections to a server there may be: the uploads that a backup has settled on, or those that one
// would begin with.
func (a *app) sessions() int {
	if a.task.uploads > 0 {
		return a.task.uploads
	}
	cpu := processors.Count()
	return a.spec.Parallel(cpu, options.Media{Target: device.Remote}).Workers.Uploads
}
