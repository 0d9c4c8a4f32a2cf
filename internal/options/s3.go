package options

// bucketOptions configure the connection to an S3 server.
func bucketOptions() []Option {
	return grouped(GroupShare, 0, []Option{
		{Name: "s3-credentials", Kind: Path, Rare: true,
			Help: "file with the keys of the bucket, in the format of ~/.aws/credentials; without: AWS_ACCESS_KEY_ID and " +
				"AWS_SECRET_ACCESS_KEY, ~/.aws, or the role of the machine"},
		{Name: "s3-region", Rare: true, Help: "region of the bucket; without: AWS_REGION, else us-east-1"},
		{Name: "s3-style", Kind: Choice, Choices: []string{"auto", "path", "host"}, Default: "auto", Rare: true,
			Help: "where requests name the bucket: path (https://server/bucket), host (https://bucket.server) or auto (host " +
				"for Amazon and Google)"},
		{Name: "s3-tls", Kind: Bool, Default: "yes", Rare: true,
			Help: "connect to the S3 server by HTTPS; no: by HTTP, in a trusted network"},
		{Name: "s3-ca", Kind: Path, Rare: true,
			Help: "file with the certificate of the authority that the S3 server's certificate is from, in PEM form"},
		{Name: "s3-class", Rare: true,
			Help: "storage class of packs of file data, such as STANDARD_IA; everything else has the default class of the " +
				"bucket"},
		{Name: "s3-lock", Rare: true,
			Help: "how long the server refuses to remove a version of a stored file, such as governance:30d or " +
				"compliance:30d; init keeps it in the repository, for all machines"},
	})
}

// Bucket configures the connection to an S3 server.
type Bucket struct {
	Credentials string // file with the keys; "": as Amazon's tools find them
	Region      string // "": as Amazon's tools find it
	Style       string // "auto", "path" or "host"
	TLS         bool
	CA          string // file with certificates; "": those of the system
	Class       string // storage class of packs of data; "": the default of the bucket
	Lock        string // as s3.ParseLock reads it; "": that of the repository
}

// Bucket returns the settings of the connection to an S3 server.
func (s *Spec) Bucket() Bucket {
	return Bucket{Credentials: s.string("s3-credentials"), Region: s.string("s3-region"), Style: s.string("s3-style"),
		TLS: s.bool("s3-tls"), CA: s.string("s3-ca"), Class: s.string("s3-class"),
		Lock: s.string("s3-lock")}
}
