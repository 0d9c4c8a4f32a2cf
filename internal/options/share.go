package options

// shareOptions say how to talk to the server of a repository on an SMB share.
func shareOptions() []Option {
	return []Option{
		{Name: "smb-password", Group: GroupShare, Type: Type{Kind: String}, Barred: NotFlag | NotFile, Secret: true,
			Help: "password for the server of an SMB share; only from the environment, since others can see a command line"},
		{Name: "smb-password-file", Group: GroupShare, Type: Type{Kind: Path},
			Help: "file whose first line is the password for the server of an SMB share"},
		{Name: "smb-password-command", Group: GroupShare, Type: Type{Kind: String},
			Help: "command whose first line of output is the password for the server of an SMB share"},
		{Name: "smb-credentials", Group: GroupShare, Type: Type{Kind: Path},
			Help: "file with lines username=, password= and domain=, as mount.cifs takes it"},
		{Name: "smb-kerberos", Group: GroupShare, Type: Type{Kind: Bool}, Default: "no",
			Help: "log on to the server of an SMB share with the Kerberos ticket in KRB5CCNAME, and with no password"},
		{Name: "smb-encrypt", Group: GroupShare, Type: Type{Kind: Bool}, Default: "no",
			Help: "send nothing to the server of an SMB share in clear (SMB 3); no is as the server asks"},
		{Name: "smb-sign", Group: GroupShare, Default: "if-offered",
			Type: Type{Kind: Choice, Choices: []string{"if-offered ifoffered", "required"}},
			Help: "signatures on what goes to and from the server of an SMB share: if-offered (as the server asks) or required"},
		{Name: "verify-writes", Group: GroupShare, Default: "trailer",
			Type: Type{Kind: Choice, Choices: []string{"trailer", "full", "off"}},
			Help: "how a file is read back from an SMB share before anything relies on it: trailer (size and end), full or off"},
	}
}

// Share says how to talk to the server of a share. At most one of Password, PasswordFile, PasswordCommand and Credentials
// is set: the one from the source that wins; none with Kerberos. All empty: ask on the terminal.
type Share struct {
	Password        Secret
	PasswordFile    string
	PasswordCommand string
	Credentials     string // a file in the form of mount.cifs
	Kerberos        bool   // none of those, but a ticket
	Encrypt, Sign   bool   // required
	Verify          string // "trailer", "full" or "off"
}

// logons are the options that give the password for the server, of which one counts.
func logons() []string {
	return []string{"smb-password", "smb-password-file", "smb-password-command", "smb-credentials"}
}

// Share returns how to talk to the server of a share.
func (s *Spec) Share() Share {
	out := Share{Encrypt: s.bool("smb-encrypt"), Sign: s.string("smb-sign") == "required", Verify: s.string("verify-writes")}
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
		out.PasswordCommand = s.string("smb-password-command")
	case "smb-credentials":
		out.Credentials = s.string("smb-credentials")
	}
	return out
}
