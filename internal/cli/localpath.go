package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/location"
	"github.com/tidemark-backup/tidemark/internal/when"
)

// The checks in this file refuse the address of a share where a local path is expected. They run before the path is
// used, so no folder with that name is created and no message quotes a password.

// takesAddress is the annotation of a command whose arguments may be addresses of shares, or belong to another program.
const takesAddress = "takes-address"

// localPathFlags are the flags that name local paths and are not options; options.Spec.Files lists the others.
func localPathFlags() []string {
	return []string{
		"target", "path", "source", "files-from", "files-from-verbatim", "files-from-raw", "include-file", "iinclude-file",
		"exclude-file", "iexclude-file", "new-password-file", "new-key-file", "option-file",
	}
}

// checkLocalArguments refuses the address of a share as an argument of a command without takesAddress.
func checkLocalArguments(c *cobra.Command, args []string) error {
	if c.Annotations[takesAddress] != "" {
		return nil
	}
	for _, arg := range args {
		if location.IsShare(arg) {
			return usagef("an argument of %q is the address of a share: only --repo takes an address; "+
				"mount the share and name its folder, or put ./ before the name of a local folder", c.CommandPath())
		}
	}
	return nil
}

// checkSnapshotArgument refuses a path where a command expects a snapshot: a user of another program names the
// repository there, or files without the snapshot that holds them.
func checkSnapshotArgument(c *cobra.Command, args []string) error {
	use := strings.Fields(c.Use) // ls [flags] SNAPSHOT[:/PATH] [DIR...]
	if len(args) == 0 || len(use) < 3 || !strings.HasPrefix(strings.TrimPrefix(use[2], "["), "SNAPSHOT") {
		return nil
	}
	before, _, _ := strings.Cut(args[0], ":")
	if _, err := when.Parse(args[0], time.Now()); err == nil || !strings.ContainsRune(before, filepath.Separator) {
		return nil
	}
	hint := fmt.Sprintf("a repository is named by '--repo %s'", human.ShellWord(args[0]))
	if at, err := filepath.Abs(args[0]); err == nil && strings.Contains(use[2], ":/PATH") {
		hint += fmt.Sprintf(", files in a snapshot by '%s'", human.ShellWord("latest:"+at))
	}
	return usagef("%s is a path, not a snapshot: %s", human.Printable(args[0]), hint)
}

// checkLocalSource refuses an address as the source of a backup. A path that does not exist and may contain a password
// is refused too: the report of missing sources would print it.
func checkLocalSource(path string) error {
	const instead = "only local folders are backed up: mount the share and name its folder, or put ./ before the name " +
		"of a local folder"
	if location.IsShare(path) {
		return fmt.Errorf("one of the sources is the address of a share: %s", instead)
	}
	if store.Mask(path) == path || strings.HasPrefix(path, "."+string(filepath.Separator)) {
		return nil
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("one of the sources does not exist and looks like an address with a password, so it is not "+
			"printed: %s", instead)
	}
	return nil
}

// checkLocalFlags refuses an address as the value of a flag that names a local path.
func checkLocalFlags(flags *pflag.FlagSet) error {
	for _, name := range localPathFlags() {
		f := flags.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			if location.IsShare(value) {
				return notLocal("--" + name)
			}
		}
	}
	return nil
}

// checkLocalOptions does the same for options, whether from a flag, the environment or the option file.
func checkLocalOptions(spec *options.Spec) error {
	for name, path := range spec.Files() {
		if location.IsShare(path) {
			return notLocal(name)
		}
	}
	return nil
}

func notLocal(what string) error {
	return usagef("%s: the value is the address of a share, and a local path is needed: only --repo takes "+
		"an address; mount the share and name its folder, or put ./ before the name of a local folder", what)
}
