package shared

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// program is the name of this program's directory below that of all programs.
const program = "tidemark"

// RuntimeDir returns the directory for files of running processes; Attach makes it if only the last part is missing. It
// is
//
//	$XDG_RUNTIME_DIR/tidemark   if that names a directory of this user,
//	/run/user/UID/tidemark      if there is one of this user,
//	/run/tidemark               for root, also where XDG_RUNTIME_DIR is the /run/user/0 of a login: services have none,
//	                            and both must meet,
//	$TMPDIR/tidemark            on macOS, in place of the two before;
//	/var/run/tidemark           there for root, whose TMPDIR is that of a login or of a service.
//
// env is like os.LookupEnv. The error is ErrNoRuntimeDir.
func RuntimeDir(env func(string) (string, bool)) (string, error) {
	if runtime.GOOS == "darwin" {
		return runtimeDir(env, os.Geteuid(), "TMPDIR")
	}
	return runtimeDir(env, os.Geteuid(), "")
}

func runtimeDir(env func(string) (string, bool), uid int, temporary string) (string, error) {
	login := filepath.Join("/run/user", strconv.Itoa(uid))
	root, system := uid == 0, "/run"
	if root && temporary != "" {
		system, temporary = "/var/run", ""
	}
	for _, from := range []string{"XDG_RUNTIME_DIR", temporary} {
		dir, _ := env(from)
		if from != "" && filepath.IsAbs(dir) && owned(dir, uid) && !(root && filepath.Clean(dir) == login) {
			return filepath.Join(dir, program), nil
		}
	}
	switch {
	case root:
		return filepath.Join(system, program), nil
	case temporary == "" && owned(login, uid):
		return filepath.Join(login, program), nil
	case temporary != "":
		return "", fmt.Errorf("%w: set %s to a directory of your own", ErrNoRuntimeDir, temporary)
	}
	return "", fmt.Errorf("%w: %s is not there; set XDG_RUNTIME_DIR to a directory of your own (mode 0700)",
		ErrNoRuntimeDir, login)
}
