package options

// shareOptions configure the connection to the server.
func shareOptions() []Option {
	return grouped(GroupShare, 0, []Option{
		{Name: "smb-password", Barred: NotFlag | NotFile, Secret: true,
			Help: "password for the server; only from the environment, since other users can see a command line"},
		{Name: "smb-password-file", Kind: Path, Help: "file whose first line is the server's password"},
		{Name: "smb-password-command", Rare: true, Help: "command whose first line of output is the password for the server"},
		{Name: "smb-credentials", Kind: Path, Rare: true,
			Help: "file with lines username=, password= and domain=, in the format of mount.cifs"},
		{Name: "smb-kerberos", Kind: Bool, Default: "no", Rare: true,
			Help: "log on to the server with the Kerberos ticket in KRB5CCNAME, without a password"},
		{Name: "smb-encrypt", Kind: Bool, Default: "no", Rare: true,
			Help: "require encryption to the server (SMB 3); no: as the server requires"},
		{Name: "smb-sign", Kind: Choice, Choices: []string{"required", "if-offered ifoffered"}, Default: "required",
			Rare: true,
			Help: "signing of messages to and from the server: required (or encryption, if the server has a fast cipher) or " +
				"if-offered (as the server requires; if neither, each file is read back in full)"},
		{Name: "verify-writes", Kind: Choice, Choices: []string{"trailer", "full", "off"}, Default: "trailer", Rare: true,
			Help: "how much of a file is read back from an SMB share before the backup relies on it: trailer (size and end), " +
				"full or off"},
	})
}

// Share configures the connection to the server of a share. Of Keys, KeyFile is empty. If Credentials is set, they are
// all empty, and with Kerberos all of both. All empty: ask on the terminal.
type Share struct {
	Keys
	Credentials string // a file in the form of mount.cifs
	Kerberos    bool   // a ticket instead of a password
	Encrypt     bool   // required
	Sign        bool   // signatures or encryption are required
	Verify      string // "trailer", "full" or "off"
}

// logons are the options for the password of the server; the one with the highest rank applies.
func logons() []string {
	return []string{"smb-password", "smb-password-file", "smb-password-command", "smb-credentials"}
}

// Share returns the settings of the connection to a share.
func (s *Spec) Share() Share {
	out := Share{Kerberos: s.bool("smb-kerberos"), Encrypt: s.bool("smb-encrypt"),
		Sign: s.string("smb-sign") == "required", Verify: s.string("verify-writes")}
	switch {
	case out.Kerberos:
	case s.ranking(logons()) == "smb-credentials":
		out.Credentials = s.string("smb-credentials")
	default:
		out.Keys = s.secret("smb-", logons())
	}
	return out
}

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
