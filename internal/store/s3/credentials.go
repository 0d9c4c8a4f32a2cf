package s3

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// Keys locates the keys of a user. The first place that has some counts: File, the environment (AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), the files of Amazon's tools (~/.aws, AWS_PROFILE), and the service that
// gives a machine in a cloud its role (unless AWS_EC2_METADATA_DISABLED is true).
type Keys struct {
	File string                           // in the form of ~/.aws/credentials; "": none
	Env  func(name string) (string, bool) // nil: no environment
}

// metadataTimeout bounds a request to the service of a cloud. On other machines its address answers nothing.
const metadataTimeout = 3 * time.Second

func (k Keys) variable(name string) string {
	if k.Env == nil {
		return ""
	}
	if value, ok := k.Env(name); ok {
		return value
	}
	return ""
}

// find returns the keys.
func (k Keys) find(ctx context.Context) (*credentials.Credentials, error) {
	outside := &credentials.CredContext{Client: &http.Client{Timeout: metadataTimeout}}
	if id, key := k.variable("AWS_ACCESS_KEY_ID"), k.variable("AWS_SECRET_ACCESS_KEY"); k.File == "" && id != "" &&
		key != "" {
		return credentials.NewStaticV4(id, key, k.variable("AWS_SESSION_TOKEN")), nil
	}
	file := credentials.NewFileAWSCredentials(k.File, k.variable("AWS_PROFILE"))
	found, err := file.GetWithContext(outside)
	if err == nil && found.AccessKeyID != "" {
		return file, nil
	}
	if k.File == "" && k.variable("AWS_EC2_METADATA_DISABLED") != "true" && ctx.Err() == nil {
		role := credentials.New(&credentials.IAM{Client: outside.Client})
		if found, failed := role.GetWithContext(outside); failed == nil && found.AccessKeyID != "" {
			return role, nil
		}
	}
	profile := cmp.Or(k.variable("AWS_PROFILE"), "default")
	do := "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file like ~/.aws/credentials with --s3-credentials"
	if k.File != "" {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			return nil, &store.Problem{What: "the file of --s3-credentials cannot be read", Do: "correct its name",
				Cause: err, Kinds: []error{store.ErrDenied}}
		}
		return nil, &store.Problem{What: k.File + " holds no keys for the profile " + profile,
			Do: "write a line aws_access_key_id = ... and a line aws_secret_access_key = ... below [" + profile +
				"], or name another one in AWS_PROFILE",
			Kinds: []error{store.ErrDenied}}
	}
	return nil, &store.Problem{What: "no keys for the bucket were found", Do: do, Kinds: []error{store.ErrDenied}}
}
