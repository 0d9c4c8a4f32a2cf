package place

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
)

// lockSeen is the file in the cache folder of a repository that remembers its lock.
const lockSeen = "lock"

// keepLock holds on to the lock that this machine has seen first, or was given as an option: an attacker with the
// keys of another machine can replace the config by one with a shorter lock, or without one.
func (p *Place) keepLock(r *repo.Repository) {
	lock, file, seen := store.LockOf(r.Store()), "", ""
	if lock == nil || !p.Before.IsZero() {
		return
	}
	if folder := r.CacheFolder(); folder != "" {
		file = filepath.Join(folder, lockSeen)
		text, _ := os.ReadFile(file)
		seen = strings.TrimSpace(string(text))
	}
	known := seen
	switch given := lock.Name != "" && lock.Name != lock.Config; {
	case given, seen == "", seen != lock.Name && lock.Keep(seen) != nil: // it is torn
		seen = lock.Name
	}
	if seen != lock.Config {
		p.cfg.Warn(fmt.Sprintf("warning: the config of this repository says %s, and this machine goes on with %s: an "+
			"attacker may have replaced the config; read older states with --as-of, and let 'tidemark prune' store the "+
			"config once more", lockText(lock.Config), lockText(seen)))
	}
	if file != "" && seen != known {
		_ = os.WriteFile(file, []byte(seen+"\n"), 0o600)
	}
}

// lockText names a lock.
func lockText(name string) string {
	if name == "" {
		return "no lock"
	}
	return fmt.Sprintf("the lock %q", name)
}
