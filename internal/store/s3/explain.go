package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// goOn ends the advice about a temporary failure during a run.
const goOn = "and " + store.RunAgain + "; what was stored so far is kept and not sent twice"

// explain adds to an error the sentinel of package store, and what the user can do.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		s.reached.Store(true)
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p := (*store.Problem)(nil); errors.As(err, &p) {
		return err
	}
	answer := minio.ToErrorResponse(err)
	if answer.Code == "" {
		return s.explainNetwork(err)
	}
	s.reached.Store(true)
	if plain := sentinel(answer); plain != nil {
		return plain
	}
	p := s.refusal(answer)
	p.Cause = errors.New(strings.TrimSuffix(answer.Code+": "+answer.Message, ": "))
	return p
}

// sentinel returns the error for an answer that is no problem of the user's; nil for all others.
func sentinel(a minio.ErrorResponse) error {
	switch {
	case a.Code == minio.NoSuchKey:
		return store.ErrNotExist
	case a.Code == "InvalidRange" || a.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: it ends before the range", store.ErrShort)
	case a.StatusCode == http.StatusPreconditionFailed:
		return errTaken
	case a.StatusCode == http.StatusConflict: // another put of the name is under way
		return fmt.Errorf("%w: %s", store.ErrTemporary, a.Code)
	}
	return nil
}

// refusal explains an answer.
func (s *Store) refusal(a minio.ErrorResponse) *store.Problem {
	where, host := s.Location(), s.target.Host()
	switch a.Code {
	case "NoSuchBucket":
		return &store.Problem{What: "there is no bucket " + s.target.Bucket + " at " + host,
			Do: "correct its name, or make it with the tools of the server", Kinds: []error{store.ErrGone}}
	case "RequestTimeTooSkewed":
		return &store.Problem{What: "the clock of this machine differs from that of " + host + " by more than 15 minutes",
			Do: "set the clock that is wrong, " + goOn, Kinds: []error{store.ErrDenied}}
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken":
		return &store.Problem{What: "the keys for " + where + " have expired",
			Do: "get new ones (log on again, or renew the session token), " + goOn, Kinds: []error{store.ErrDenied}}
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "XAdminUserNotFound": // the last is versitygw's
		return &store.Problem{What: host + " does not accept the keys",
			Do:    "correct AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the file of --s3-credentials",
			Kinds: []error{store.ErrDenied}}
	case "InvalidObjectState": // denied: what cannot be read now is no damage
		return &store.Problem{What: "an object at " + where + " is archived, so that it cannot be read",
			Do:    "restore the archived objects from the archive with the tools of the provider, " + goOn,
			Kinds: []error{store.ErrDenied}}
	case "InvalidStorageClass":
		return &store.Problem{What: host + " does not have the storage class " + s.class,
			Do: "correct --s3-class", Kinds: []error{store.ErrDenied}}
	case "ObjectLockConfigurationNotFoundError":
		return s.lockless()
	case "InvalidRequest":
		if strings.Contains(a.Message, "Object Lock") || strings.Contains(a.Message, "ObjectLock") {
			return s.lockless()
		}
	case "QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "StorageFull", "XMinioAdminBucketQuotaExceeded":
		return &store.Problem{What: "no space left at " + where,
			Do:    store.FreeSpace(where) + ", or raise the quota, " + goOn,
			Kinds: []error{store.ErrNoSpace}}
	case "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "InvalidDigest":
		return &store.Problem{What: "data changed on the way to " + host,
			Do:    "if this repeats, look for a faulty network or memory, " + goOn,
			Kinds: []error{store.ErrTemporary}}
	case "NotImplemented", "501 Not Implemented":
		return &store.Problem{What: host + " does not know a request that tidemark needs (If-None-Match on PUT)",
			Do: "choose a server that has conditional writes; docs/stores.md lists some"}
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "InvalidRegion", "TemporaryRedirect":
		return s.elsewhere(a)
	}
	switch {
	case a.StatusCode == http.StatusMovedPermanently || a.StatusCode == http.StatusTemporaryRedirect:
		return s.elsewhere(a)
	case a.StatusCode == http.StatusForbidden || a.StatusCode == http.StatusUnauthorized:
		do := "allow these keys to list the bucket, and to get, put and delete its objects"
		if s.Lock().Name != "" {
			do += ", and to put their retention (s3:PutObjectRetention)"
		}
		return &store.Problem{What: "access to " + where + " is denied", Do: do, Kinds: []error{store.ErrDenied}}
	case a.StatusCode == http.StatusInsufficientStorage:
		return &store.Problem{What: "no space left at " + where, Do: store.FreeSpace(where) + ", " + goOn,
			Kinds: []error{store.ErrNoSpace}}
	case a.StatusCode >= http.StatusInternalServerError, a.StatusCode == http.StatusTooManyRequests,
		a.StatusCode == http.StatusRequestTimeout, a.Code == "RequestTimeout":
		return &store.Problem{What: host + " has too much to do", Do: "wait a little, or lower --uploads, " + goOn,
			Kinds: []error{store.ErrTemporary}}
	}
	return &store.Problem{What: host + " refuses a request", Do: "look at the log of the server, " + goOn}
}

// elsewhere explains that a bucket is in another region.
func (s *Store) elsewhere(a minio.ErrorResponse) *store.Problem {
	p := &store.Problem{What: "the bucket " + s.target.Bucket + " is in another region",
		Do: "name its region with --s3-region or AWS_REGION", Kinds: []error{store.ErrDenied}}
	if a.Region != "" {
		p.What += ", " + a.Region
		p.Do = "use --s3-region " + a.Region
	}
	return p
}

// explainNetwork explains an error without an answer. It is temporary once the server has answered a request.
func (s *Store) explainNetwork(err error) error {
	host := s.target.Host()
	p := &store.Problem{What: host + " cannot be reached", Cause: err, Do: "check its name and that it is up, " + goOn,
		Kinds: []error{store.ErrGone}}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		p.What, p.Do = "the certificate of "+host+" is from an unknown authority", "name the authority with --s3-ca"
		return p
	case errors.As(err, &name), errors.As(err, &invalid):
		p.What, p.Do = "the certificate of "+host+" is not valid", "correct it on the server, or the name in the address"
		return p
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		p.What, p.Do = host+" speaks HTTP without encryption", "switch on TLS there, or use --s3-tls=no in a trusted network"
		return p
	}
	if s.core.EndpointURL().Scheme == "http" {
		p.Do = "leave out --s3-tls=no if the server encrypts; else " + p.Do
	}
	if s.reached.Load() {
		p.What, p.Kinds = "the connection to "+host+" was lost", append(p.Kinds, store.ErrTemporary)
	}
	return p
}
