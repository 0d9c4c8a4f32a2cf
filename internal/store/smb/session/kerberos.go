package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cloudsoda/go-smb2"
	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/krberror"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Tickets locates the Kerberos tickets of a user. Other programs obtain and renew them (kinit, the logon, sssd). They
// are read for each connection.
type Tickets struct {
	Cache  string // like KRB5CCNAME; "": /tmp/krb5cc_UID
	Config string // like KRB5_CONFIG; "": /etc/krb5.conf. If it is missing, DNS is used.
}

const (
	defaultConfig = "/etc/krb5.conf"
	kinit         = "get a ticket with 'kinit'"
)

// initiator holds a ticket for the server.
func (t *Tickets) initiator(ctx context.Context, l Login) (smb2.Initiator, error) {
	if net.ParseIP(l.Host) != nil {
		return nil, unticketed(nil, "Kerberos knows servers by name, and not as "+l.Host,
			"write the name of the server in the address")
	}
	c, err := t.client(l)
	if err != nil {
		return nil, err
	}
	name := "cifs/" + strings.ToLower(l.Host)
	// The library queries the KDC without a context, for some seconds at most.
	done := make(chan error, 1)
	go func() {
		done <- guarded(func() error {
			_, _, err := c.GetServiceTicket(name)
			return err
		})
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err = <-done:
	}
	var failure krberror.Krberror
	switch {
	case err == nil:
		return &smb2.Krb5Initiator{Client: c, TargetSPN: name}, nil
	case errors.As(err, &failure) && failure.RootCause == krberror.NetworkingError:
		return nil, &store.Problem{
			What: "the KDC of " + c.Credentials.Realm() + " cannot be reached", Cause: err,
			Do:    "see whether this machine is on its network, " + again,
			Kinds: []error{store.ErrTemporary, store.ErrGone},
		}
	}
	return nil, unticketed(err, "there is no ticket for "+name,
		"see whether the server is known by that name in "+c.Credentials.Realm())
}

// client reads configuration and tickets.
func (t *Tickets) client(l Login) (*client.Client, error) {
	path, err := t.file()
	if err != nil {
		return nil, err
	}
	var cache *credentials.CCache
	err = guarded(func() (err error) { // the library trusts the lengths in the file
		cache, err = credentials.LoadCCache(path)
		return err
	})
	if errors.Is(err, errNonsense) {
		err = errors.New("the file is damaged")
	}
	if err != nil {
		return nil, unticketed(err, "there are no Kerberos tickets in "+path, kinit+", or name the file in KRB5CCNAME")
	}
	who, realm := cache.DefaultPrincipal.PrincipalName.PrincipalNameString(), cache.DefaultPrincipal.Realm
	if l.User != "" && !strings.EqualFold(l.User, who) {
		return nil, unticketed(nil, fmt.Sprintf("the Kerberos ticket is that of %q, and not of %q", who, l.User),
			"leave the user out of the address, or "+kinit+" as that user")
	}
	ticket, ok := cache.GetEntry(types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+realm))
	if !ok {
		return nil, unticketed(nil, fmt.Sprintf("there is no Kerberos ticket of %q in %s", who, path), kinit)
	}
	if !time.Now().Before(ticket.EndTime) {
		return nil, unticketed(nil, fmt.Sprintf("the Kerberos ticket of %q has expired", who), kinit)
	}
	conf, err := t.config(realm)
	if err != nil {
		return nil, err
	}
	c, err := client.NewFromCCache(cache, conf, client.DisablePAFXFAST(true))
	if err != nil {
		return nil, unticketed(err, "the Kerberos tickets in "+path+" cannot be used", kinit)
	}
	return c, nil
}

// file returns the path of the tickets.
func (t *Tickets) file() (string, error) {
	if t.Cache == "" {
		return fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()), nil
	}
	kind, path, ok := strings.Cut(t.Cache, ":")
	switch {
	case !ok || strings.HasPrefix(t.Cache, "/"):
		return t.Cache, nil
	case strings.EqualFold(kind, "FILE"):
		return path, nil
	}
	return "", unticketed(nil, fmt.Sprintf("Kerberos tickets of the kind %s: cannot be read", kind),
		"get one in a file: KRB5CCNAME=FILE:/path kinit, and the same KRB5CCNAME for tidemark")
}

// config reads how to find the KDC of a realm.
func (t *Tickets) config(realm string) (*config.Config, error) {
	path := t.Config
	if path == "" {
		path = defaultConfig
	}
	conf, err := config.Load(path)
	var odd config.UnsupportedDirective
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.Config == "":
		conf = config.New()
		conf.LibDefaults.DNSLookupKDC = true
	case errors.As(err, &odd):
	case err != nil:
		return nil, unticketed(err, "the configuration of Kerberos cannot be read from "+path,
			"mend it, or name another in KRB5_CONFIG")
	}
	if conf.LibDefaults.DefaultRealm == "" {
		conf.LibDefaults.DefaultRealm = realm
	}
	return conf, nil
}

// unticketed is the final error of a logon without a ticket.
func unticketed(cause error, what, do string) error {
	return &store.Problem{What: what, Cause: cause, Do: do, Kinds: []error{ErrLogon}}
}
