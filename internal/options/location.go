package options

import "path/filepath"

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
