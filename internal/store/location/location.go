// Package location reads where a repository is, and opens the store there: a folder of this machine, or an address on a
// server. A kind of server is one package with the store, and one address here with a case of parseAddress.
package location

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/limit"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Location is where a repository is.
type Location struct {
	Disk   Disk   // zero: Folder does not depend on where a disk is mounted
	Folder string // absolute, or below the root of Disk until Find has found it; "": on a server
	// Address is the place on a server; nil: in a folder.
	Address Address
	onDisk  string // Folder as it was before Find
}

// Parse reads a location as a user writes it. Its errors are mistakes of the user; they contain no password.
func Parse(text string) (Location, error) {
	if l, found, err := parseDisk(text); found {
		return l, err
	}
	scheme, rest, found := strings.Cut(text, "://")
	if at, err := parseAddress(strings.ToLower(scheme), rest); found && (at != nil || err != nil) {
		return Location{Address: at}, err
	}
	switch {
	case strings.EqualFold(otherBackend(text), "rest"):
		return Location{}, errors.New("there is no REST server here: serve the folder by SSH and write it as " +
			"sftp://user@host/path, or put ./ before the name of a local folder")
	case strings.EqualFold(otherBackend(text), "rclone"):
		return Location{}, errors.New("rclone is not used: write a bucket as s3://host/bucket/path, mount other storage " +
			"with 'rclone mount' and name a folder in it, or put ./ before the name of a local folder")
	case found && scheme == "file":
		text = rest
	case found: // not quoted as a whole: it may contain a password
		if strings.ContainsFunc(scheme, func(r rune) bool { return !unicode.IsLetter(r) }) {
			scheme = "..."
		}
		return Location{}, fmt.Errorf("repository %s://...: %s", scheme, supported)
	case plainShare(text) != "":
		return Location{}, fmt.Errorf("the repository looks like the address of a share: write it as smb://user@%s, "+
			"or with one slash at its beginning if it is a local folder", plainShare(text))
	case shareNotation(text):
		return Location{}, fmt.Errorf("the repository looks like the address of a share: write it as " +
			"smb://user@host/share/path, or put ./ before the name of a local folder")
	case copyNotation(text) != "":
		return Location{}, fmt.Errorf("the repository looks like a folder on a machine with SSH: write it as '%s', "+
			"or put ./ before the name of a local folder", copyNotation(text))
	case otherBackend(text) != "":
		return Location{}, fmt.Errorf("repository %s:...: %s; put ./ before the name of a local folder",
			otherBackend(text), supported)
	default:
		text = strings.TrimPrefix(text, "local:")
	}
	path, err := filepath.Abs(text)
	if err != nil {
		return Location{}, fmt.Errorf("find repository: %w", err)
	}
	return Location{Folder: path}, nil
}

// IsShare reports whether a text is meant as the address of a share, even if Parse rejects it: it begins with smb: or
// cifs:, in any case.
func IsShare(text string) bool {
	lower := strings.ToLower(text)
	return strings.HasPrefix(lower, "smb:") || strings.HasPrefix(lower, "cifs:")
}

// shareNotation reports whether text is another usual notation for a share. As a folder it would be created on the
// local disk, and printed with the password in it.
func shareNotation(text string) bool {
	return IsShare(text) || strings.HasPrefix(text, `\\`) || strings.HasPrefix(text, "//") && strings.Contains(text, "@")
}

// plainShare returns host/share/path of a location written as //host/share/path, "" for all others: for those with a
// colon or an @, which may contain a password, and for existing folders, since to the system two slashes are one.
func plainShare(text string) string {
	rest, found := strings.CutPrefix(filepath.ToSlash(text), "//")
	if !found || strings.HasPrefix(rest, "/") || !strings.Contains(rest, "/") || strings.ContainsAny(rest, "@:%") {
		return ""
	}
	if _, err := os.Lstat(text); err == nil {
		return ""
	}
	return strings.TrimSuffix(rest, "/")
}

// copyNotation returns the address that is meant by [sftp:][user@]host:path, as scp, rsync and restic write it; "" for
// all others: for those that may contain a password, and for existing files and folders.
func copyNotation(text string) string {
	at, folder, found := strings.Cut(strings.TrimPrefix(text, "sftp:"), ":")
	user, host, both := strings.Cut(at, "@")
	if !both {
		user, host = "", at
	}
	plain := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r) }
	if !found || folder == "" || host == "" || strings.ContainsAny(folder, "@:") ||
		strings.ContainsFunc(user+host, func(r rune) bool { return !plain(r) }) {
		return ""
	}
	if otherBackend(text) != "" && !strings.HasPrefix(text, "sftp:") || strings.HasPrefix(text, "local:") {
		return ""
	}
	if _, err := os.Lstat(text); err == nil {
		return ""
	}
	if !strings.HasPrefix(folder, "/") {
		folder = "/~/" + strings.TrimPrefix(folder, "~/")
	}
	return "sftp://" + at + folder
}

// otherBackend returns the prefix with which other programs name a repository that is not in a folder; "" without one.
// As a folder it would be created locally and be mistaken for a remote copy.
func otherBackend(text string) string {
	word, _, found := strings.Cut(text, ":")
	known := []string{"azure", "b2", "gs", "rclone", "rest", "s3", "sftp", "ssh", "swift"}
	if found && slices.Contains(known, strings.ToLower(word)) {
		return word
	}
	return ""
}

// OnServer reports whether the location is on a server that this program connects to itself.
func (l Location) OnServer() bool { return l.Address != nil }

// String returns the location for messages. It contains no secret.
func (l Location) String() string {
	if l.OnServer() {
		return l.Address.String()
	}
	if l.Disk != (Disk{}) {
		return l.Disk.String() + "/" + cmp.Or(l.onDisk, l.Folder)
	}
	return l.Folder
}

// Access is what opening a location needs.
type Access struct {
	Gate *iopolicy.Pass // of the folder
	// Read is called before each read, and the function that it returns after it: with the name of the pack that was read,
	// "" for another file, and the number of bytes, 0 after an error.
	Read  func(ctx context.Context) (end func(pack string, n int))
	Limit *limit.Limiter               // nil: no limits
	Retry func(what string, err error) // when operations on the folder are tried again
	Back  func()                       // when the folder can be used again
	// Connect calls dial, again if a person enters another password, and closes the store at the end of the run.
	Connect func(dial func() (store.Remote, error)) (store.Remote, error)
	Share   func(smb.Target) smb.Options
	Bucket  func(s3.Target) (s3.Options, error)
	SSH     func(sftp.Target) sftp.Options
	// Before opens the store as it was before a time, and for reading only; zero: as it is.
	Before time.Time
}

// Open opens the store at l; store.ErrNotExist: there is none.
func (l Location) Open(ctx context.Context, a Access) (store.Store, error) {
	return l.begin(ctx, a, false)
}

// Create creates the folders of a repository at l.
func (l Location) Create(ctx context.Context, a Access) (store.Store, error) {
	return l.begin(ctx, a, true)
}

// MayHavePast reports whether the store may keep older versions, which Access.Before names.
func (l Location) MayHavePast() bool {
	_, ok := l.Address.(bucket)
	return ok
}

// begin opens or creates a store. One that does not repeat by itself what a lost connection interrupted is wrapped for
// that.
func (l Location) begin(ctx context.Context, a Access, create bool) (store.Store, error) {
	var st store.Store
	var err error
	if !l.MayHavePast() && !a.Before.IsZero() {
		return nil, &store.Problem{What: l.String() + " has no past, which only a bucket with versions has",
			Do: "leave out --as-of", Kinds: []error{store.ErrDenied}}
	}
	if l.OnServer() {
		st, err = a.Connect(func() (store.Remote, error) { return l.Address.dial(ctx, a, create) })
	} else {
		st, err = pick(create, local.Create, local.Open)(l.Folder, a.Gate)
	}
	if err != nil {
		return nil, err
	}
	counted := &reads{limit.Wrap(st, a.Limit), a.Read}
	if _, repeats := l.Address.(share); repeats { // see smb.Patience.Outage
		return counted, nil
	}
	policy := retry.DefaultPolicy()
	policy.Notify, policy.Back = a.Retry, a.Back
	return retry.Wrap(counted, policy), nil
}

// reads is a decorator that reports reads, each attempt of one.
type reads struct {
	store.Store
	begin func(ctx context.Context) (end func(pack string, n int))
}

// Inner returns the store that is decorated.
func (r *reads) Inner() store.Store { return r.Store }

// Get passes on to the inner store.
func (r *reads) Get(ctx context.Context, name store.Name, off int64, p []byte) error {
	end, pack, n := r.begin(ctx), "", len(p)
	err := r.Store.Get(ctx, name, off, p)
	if name.Kind == store.Pack {
		pack = name.ID
	}
	if err != nil {
		n = 0
	}
	end(pack, n)
	return err
}
