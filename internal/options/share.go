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

// Share configures the connection to the server of a share. At most one of Password, PasswordFile, PasswordCommand and
// Credentials is set: the one with the highest rank; none with Kerberos. All empty: ask on the terminal.
type Share struct {
	Password        Secret
	PasswordFile    string
	PasswordCommand string
	CommandFile     string // the option file that contains PasswordCommand; "": none
	Credentials     string // a file in the form of mount.cifs
	Kerberos        bool   // a ticket instead of a password
	Encrypt         bool   // required
	Sign            bool   // signatures or encryption are required
	Verify          string // "trailer", "full" or "off"
}

// logons are the options for the password of the server; the one with the highest rank applies.
func logons() []string {
	return []string{"smb-password", "smb-password-file", "smb-password-command", "smb-credentials"}
}

// Share returns the settings of the connection to a share.
func (s *Spec) Share() Share {
	out := Share{Encrypt: s.bool("smb-encrypt"), Sign: s.string("smb-sign") == "required",
		Verify: s.string("verify-writes")}
	if s.bool("smb-kerberos") {
		out.Kerberos = true
		return out
	}
	switch s.ranking(logons()) {
	case "smb-password":
		out.Password = Secret(s.string("smb-password"))
	case "smb-password-file":
		out.PasswordFile = s.string("smb-password-file")
	case "smb-password-command":
		out.PasswordCommand, out.CommandFile = s.string("smb-password-command"), s.FileOf("smb-password-command")
	case "smb-credentials":
		out.Credentials = s.string("smb-credentials")
	}
	return out
}
