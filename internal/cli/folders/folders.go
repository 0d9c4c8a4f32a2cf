// Package folders refuses addresses of shares where a file or a folder of this machine is meant, before anything is made of
// them: a folder of that name, or a message in which a password stands. It refuses to know what the folders are for.
package folders

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/store/smb/address"
)

// TakesAddress marks a command whose arguments may be addresses of shares, or are those of another program.
const TakesAddress = "takes-address"

// localFlags name files and folders of this machine, beside the options that options.Spec.Files tells of.
func localFlags() []string {
	return []string{
		"target", "path", "source", "files-from", "files-from-verbatim", "files-from-raw", "include-file", "iinclude-file",
		"exclude-file", "iexclude-file", "new-password-file", "new-key-file", "option-file",
	}
}

// Arguments refuses an address of a share as the argument of a command that takes none, before anything is made of it:
// a folder of that name, or a message in which the password stands.
func Arguments(c *cobra.Command, args []string) error {
	if c.Annotations[TakesAddress] != "" {
		return nil
	}
	for _, arg := range args {
		if address.Is(arg) {
			return fmt.Errorf("an argument of %q is the address of a share, which is not meant here: name a repository there with --repo; "+
				"for anything else mount the share and name the folder, or put ./ before the name of a folder", c.CommandPath())
		}
	}
	return nil
}

// Source refuses as a source an address, and what may be one and is not there: it would be told as missing.
func Source(path string) error {
	const instead = "only folders of this machine are backed up: mount the share and name the folder, or put ./ before its name"
	if address.Is(path) {
		return fmt.Errorf("one of the sources is the address of a share: %s", instead)
	}
	if address.Mask(path) == path || strings.HasPrefix(path, "."+string(filepath.Separator)) {
		return nil
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("one of the sources is not there, and looks like an address with a password, so that it is not shown: %s", instead)
	}
	return nil
}

// Flags does the same for flags.
func Flags(flags *pflag.FlagSet) error {
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
			if address.Is(value) {
				return notLocal("--" + name)
			}
		}
	}
	return nil
}

// Options does the same for options, from wherever they come.
func Options(files []options.File) error {
	for _, f := range files {
		if address.Is(f.Path) {
			return notLocal(f.Name)
		}
	}
	return nil
}

func notLocal(what string) error {
	return fmt.Errorf("%s: an address of a share was given where a file or a folder of this machine is meant: only a repository can be "+
		"at an address, by --repo; mount the share and name the folder, or put ./ before the name of a folder", what)
}
