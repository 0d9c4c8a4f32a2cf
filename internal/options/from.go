package options

import (
	"cmp"
	"fmt"
	"strings"
)

// fromOptions locate and unlock the source repository of a copy.
func fromOptions() []Option {
	return grouped(GroupFrom, 0, []Option{
		{Name: "from-repo", Kind: Path, Own: "FROMREPOSITORY TIDEMARK_FROM_REPOSITORY",
			Help: "repository to copy from; a folder, or an address as for repo"},
		{Name: "from-password", Barred: NotFlag | NotFile, Secret: true,
			Help: "passphrase of --from-repo; only from the environment"},
		{Name: "from-password-file", Kind: Path, Help: "file whose first line is the passphrase of --from-repo"},
		{Name: "from-password-command", Rare: true,
			Help: "command whose first line of output is the passphrase of --from-repo"},
		{Name: "from-key-file", Kind: Path, Rare: true, Help: "key file that opens --from-repo"},
		{Name: "from-smb-password", Topic: TopicShare, Barred: NotFlag | NotFile, Secret: true,
			Help: "password for the server of --from-repo (default: as smb-password); only from the environment"},
		{Name: "from-smb-password-file", Kind: Path, Topic: TopicShare, Help: "file whose first line is that password"},
		{Name: "from-smb-password-command", Topic: TopicShare, Rare: true,
			Help: "command whose first line of output is that password"},
		{Name: "from-smb-credentials", Kind: Path, Topic: TopicShare, Rare: true,
			Help: "file with lines username=, password= and domain= for that server"},
	})
}

// fromPrefix starts the names of the options of the source repository of a copy.
const fromPrefix = "from-"

// prefixed returns names with the prefix.
func prefixed(names []string) (out []string) {
	for _, name := range names {
		out = append(out, fromPrefix+name)
	}
	return out
}

// CopySuffix behind the name of a stanza names the repository of its COPYTO.
const CopySuffix = "@copy"

// turn makes the repository of COPYTO the one that commands use, with its own keys and rules, and the one of the stanza
// that to copy from.
func (r *resolver) turn(stanza, origin string) {
	s := r.spec
	to := s.settings["copy-to"]
	switch {
	case len(to) == 0:
		r.fail(origin, fmt.Errorf("%s%s: %s has no line COPYTO", stanza, CopySuffix, cmp.Or(stanza, "the option file")))
		return
	case s.get("repo").level == fromFlag:
		r.fail("--repo", fmt.Errorf("%s%s is the name of another repository: leave one of the two out", stanza, CopySuffix))
		return
	}
	for _, name := range append([]string{"repo", "key-file"}, passphrases()...) {
		s.settings[fromPrefix+name] = s.settings[name]
	}
	s.settings["repo"] = to
	if file := s.settings["copy-password-file"]; len(file) > 0 {
		for _, name := range append([]string{"key-file"}, passphrases()...) {
			delete(s.settings, name)
		}
		s.settings["password-file"] = file
	}
	if keep := s.settings["copy-keep"]; len(keep) > 0 {
		s.settings["keep"] = keep
	}
	delete(s.settings, "copy-to")
}

// Source returns the options of the source repository of a copy. Its location and keys come from the from- options
// only. The password of a server falls back to that of the other repository.
func (s *Spec) Source() *Spec {
	other := s.clone()
	replaced := append([]string{"repo", "key-file"}, passphrases()...)
	if s.ranking(prefixed(logons())) != "" {
		replaced = append(replaced, "smb-kerberos")
		replaced = append(replaced, logons()...)
	}
	for _, name := range replaced {
		delete(other.settings, name)
		if set := s.settings[fromPrefix+name]; len(set) > 0 {
			other.settings[name] = set
		}
	}
	return other
}

// location reports whether an option is the location of a repository.
func (o *Option) location() bool { return strings.TrimPrefix(o.Name, fromPrefix) == "repo" }
