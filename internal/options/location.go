package options

import "path/filepath"

// fileLocations returns where an option file is looked for when none is named: the user's, then the machine's. The
// first there is counts, alone.
func fileLocations(env Env) []string {
	var places []string
	if base := baseDir(env, "XDG_CONFIG_HOME", ".config"); base != "" {
		places = append(places, filepath.Join(base, "tidemark", "tidemark.opt"))
	}
	return append(places, "/etc/tidemark/tidemark.opt")
}

// defaultRepository returns where the repository is when nobody says, "" when the user has no home.
func defaultRepository(env Env, system string) string {
	return userDir(env, system, "XDG_DATA_HOME", ".local/share", "Application Support", "repository")
}

// defaultCache returns where the cache is when nobody says, "" when the user has no home.
func defaultCache(env Env, system string) string {
	return userDir(env, system, "XDG_CACHE_HOME", ".cache", "Caches", "")
}

// userDir returns tidemark's folder in one of the user's directories: after the XDG base directory specification, or in
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

// baseDir is the directory a variable names. The specification has relative paths ignored.
func baseDir(env Env, variable, fallback string) string {
	if base, _ := env(variable); filepath.IsAbs(base) {
		return base
	}
	if home, _ := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, fallback)
	}
	return ""
}
