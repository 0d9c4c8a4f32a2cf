package options

import (
	"path/filepath"
	"slices"
	"strings"
)

// WithoutSecrets returns environ, as of os.Environ, without the variables that contain a password. Every program that
// tidemark starts gets this environment, except those of `tidemark run`, since they may be tidemark itself.
func WithoutSecrets(environ []string) []string {
	var secret []string
	for _, o := range Table() {
		if o.Secret {
			secret = append(secret, o.Env())
		}
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(secret, name)
	})
}

// OfVariable returns the name of the option that an environment variable sets; "" for none.
func OfVariable(name string) string {
	for _, o := range Table() {
		if o.Env() == name {
			return o.Name
		}
	}
	return ""
}

// Keyword looks a word of an option file up, whole or shortened: the whole keyword in capitals, and the option it sets.
// For an option of IBM's client without effect here, option is empty, and hint may name the replacement. keyword is
// empty for other words.
func Keyword(word string) (keyword, option, hint string) {
	known := vocabularyOf(Table()).find(word)
	switch {
	case known == nil:
		return "", "", ""
	case known.option != nil:
		return known.full, known.option.Name, ""
	case known.full == server: // not lines of a file, but flags
		return server, "server-name", ""
	case known.full == "OPTFILE":
		return known.full, "option-file", ""
	}
	return known.full, "", hintOf(known.full)
}

// fileLocations returns the paths of the option file if none is named: the user's, then the machine's. Only the first
// that exists is read.
func fileLocations(env Env) []string {
	var places []string
	if base := baseDir(env, "XDG_CONFIG_HOME", ".config"); base != "" {
		places = append(places, filepath.Join(base, "tidemark", "tidemark.opt"))
	}
	return append(places, "/etc/tidemark/tidemark.opt")
}

// defaultRepository returns the default location of the repository, "" without a home directory.
func defaultRepository(env Env, system string) string {
	return userDir(env, system, "XDG_DATA_HOME", ".local/share", "Application Support", "repository")
}

// defaultCache returns the default folder of the cache, "" without a home directory.
func defaultCache(env Env, system string) string {
	return userDir(env, system, "XDG_CACHE_HOME", ".cache", "Caches", "")
}

// userDir returns tidemark's folder in one of the user's directories: of the XDG base directory specification, or of
// ~/Library on macOS.
func userDir(env Env, system, variable, fallback, library, leaf string) string {
	base := ""
	if system == "darwin" {
		if home, _ := env("HOME"); filepath.IsAbs(home) {
			base = filepath.Join(home, "Library", library)
		}
	} else {
		base = baseDir(env, variable, fallback)
	}
	if base == "" {
		return ""
	}
	return filepath.Join(base, "tidemark", leaf)
}

// baseDir returns the directory that a variable names. The XDG specification says to ignore relative paths.
func baseDir(env Env, variable, fallback string) string {
	if base, _ := env(variable); filepath.IsAbs(base) {
		return base
	}
	if home, _ := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, fallback)
	}
	return ""
}
