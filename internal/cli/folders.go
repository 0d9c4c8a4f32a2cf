package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

// takesAddress marks a command whose arguments may be addresses of shares, or are those of another program.
const takesAddress = "takes-address"

// localFlags name files and folders of this machine, beside the options that options.Spec.Files tells of.
func localFlags() []string {
	return []string{
		"target", "path", "source", "files-from", "files-from-verbatim", "files-from-raw", "include-file", "iinclude-file",
		"exclude-file", "iexclude-file", "new-password-file", "new-key-file", "option-file",
	}
}

// onlyFolders refuses an address of a share as the argument of a command that takes none, before anything is made of it:
// a folder of that name, or a message in which the password stands.
func onlyFolders(c *cobra.Command, args []string) error {
	if c.Annotations[takesAddress] != "" {
		return nil
	}
	for _, arg := range args {
		if smb.IsAddress(arg) {
			return usagef("an argument of %q is the address of a share, which is not meant here: name a repository there with --repo; "+
				"for anything else mount the share and name the folder, or put ./ before the name of a folder", c.CommandPath())
		}
	}
	return nil
}

// onlySource refuses as a source an address, and what may be one and is not there: it would be told as missing.
func onlySource(path string) error {
	const instead = "only folders of this machine are backed up: mount the share and name the folder, or put ./ before its name"
	if smb.IsAddress(path) {
		return usagef("one of the sources is the address of a share: %s", instead)
	}
	if smb.Mask(path) == path || strings.HasPrefix(path, "."+string(filepath.Separator)) {
		return nil
	}
	if _, err := os.Lstat(path); missing(err) {
		return usagef("one of the sources is not there, and looks like an address with a password, so that it is not shown: %s", instead)
	}
	return nil
}

// onlyFiles does the same for flags.
func onlyFiles(flags *pflag.FlagSet) error {
	for _, name := range localFlags() {
		f := flags.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if smb.IsAddress(value) {
				return notLocal("--" + name)
			}
		}
	}
	return nil
}

// onlyLocal does the same for options, from wherever they come.
func onlyLocal(files []options.File) error {
	for _, f := range files {
		if smb.IsAddress(f.Path) {
			return notLocal(f.Name)
		}
	}
	return nil
}

func notLocal(what string) error {
	return usagef("%s: an address of a share was given where a file or a folder of this machine is meant: only a repository can be "+
		"at an address, by --repo; mount the share and name the folder, or put ./ before the name of a folder", what)
}
