package place

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/options/optionfile"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

// slotFile remembers on this machine which key slot opened a repository last. It is tried first, so that slots that
// others add cost no time. "" remembers nothing. The file is in the cache folder of the repository.
type slotFile string

func knownSlot(opt repo.OpenOptions, id string) slotFile {
	if opt.Cache.Temporary || opt.Cache.Dir == "" || id == "" {
		return ""
	}
	return slotFile(filepath.Join(opt.Cache.Dir, id, "slot"))
}

// read returns the ID, "" if unknown.
func (f slotFile) read() string {
	text, err := os.ReadFile(string(f))
	if err != nil || f == "" {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// write stores the ID if possible. A torn file names no slot and only costs time.
func (f slotFile) write(id string) {
	if f != "" && f.read() != id {
		_ = os.WriteFile(string(f), []byte(id+"\n"), 0o600)
	}
}

// suffices reports whether all slots were read and intact within a day.
func (f slotFile) suffices() bool {
	info, err := os.Stat(filepath.Join(filepath.Dir(string(f)), keysSeen))
	if f == "" || err != nil {
		return false
	}
	age := time.Since(info.ModTime())
	return age >= 0 && age < lookAgain
}

// lookAgain is how often all key slots are read where each takes a round trip, to notice damage. check reads them too.
const lookAgain = 24 * time.Hour

// keysSeen is the file in the cache folder of a repository that remembers which key slots this machine has seen: a
// line of ID and description for each. Other lines are skipped. Of two runs at once the last one counts.
const keysSeen = "keys"

// goneMark begins the description of a key that is gone and was reported.
const goneMark = "gone: "

// keysSeenLimit is the maximum size of the file, in bytes: that of some hundred keys.
const keysSeenLimit = 64 << 10

// compareKeys warns of key slots that are damaged, and of those that are gone: once, or each time if RemindKeys is set.
// Nothing else misses a key that is seldom used, such as the recovery key.
func (p *Place) compareKeys(r *repo.Repository) {
	slots := r.FoundSlots()
	intact := true // and read, all of them
	for i := range slots {
		intact = intact && slots[i].Slot != nil
		if id := slots[i].ID; slots[i].Damaged() {
			p.cfg.Warn(fmt.Sprintf("key %s is damaged and opens nothing: put the file keys/%s back from a copy of the "+
				"repository; or remove it with 'tidemark key remove %[1]s' and add the key again", id.Short(), id))
		}
	}
	folder := r.CacheFolder()
	if folder == "" || len(slots) == 0 {
		return
	}
	seen := readKeysSeen(folder)
	now := describeKeys(slots)
	for i := range slots {
		if id := slots[i].ID.String(); slots[i].Slot == nil && seen[id] != "" {
			now[id] = strings.TrimPrefix(seen[id], goneMark)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if _, there := now[id]; there {
			continue
		}
		what, reported := strings.CutPrefix(seen[id], goneMark)
		now[id] = goneMark + what
		if reported && !p.RemindKeys {
			continue
		}
		p.cfg.Warn(fmt.Sprintf("a key of this repository is gone: %s; unless 'tidemark key remove' or 'tidemark key "+
			"recovery' removed it, put the file keys/%s back from a copy of the repository, or add the key again", what, id))
	}
	changed := !maps.Equal(seen, now)
	if changed {
		writeKeysSeen(folder, now)
	}
	if intact || changed {
		looked := time.Unix(0, 0) // then the next run reads all
		if intact {
			looked = time.Now()
		}
		_ = os.Chtimes(filepath.Join(folder, keysSeen), looked, looked)
	}
}

// goneKeys adds to the error of a wrong key the keys that are gone, which it may fit: those that this machine has seen,
// and those in whose place there is a folder.
func goneKeys(ctx context.Context, st store.Store, known slotFile, wrong error) error {
	seen, folders := map[string]string{}, map[string]bool{}
	if known != "" {
		seen = readKeysSeen(filepath.Dir(string(known)))
	}
	ctx = store.ReportMisplaced(ctx, func(name store.Name, _ string) { folders[name.ID] = true })
	for info, err := range st.List(ctx, store.Key) {
		if err != nil {
			return wrong
		}
		delete(seen, info.Name.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(folders)) {
		wrong = fmt.Errorf("%w; keys/%s is a folder: put the file of that name back from a copy of the repository", wrong, id)
		delete(seen, id)
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		wrong = fmt.Errorf("%w; a key is gone, %s: put the file keys/%s back from a copy of the repository, unless it was "+
			"removed on purpose", wrong, strings.TrimPrefix(seen[id], goneMark), id)
	}
	return wrong
}

// RememberKeys remembers the key slots after this machine has changed them.
func (p *Place) RememberKeys(ctx context.Context, r *repo.Repository) {
	if slots, err := r.Slots(ctx); err == nil && r.CacheFolder() != "" {
		writeKeysSeen(r.CacheFolder(), describeKeys(slots))
	}
}

// ForgetKey removes a key that is gone from what this machine remembers, so that check no longer reports it. Its ID
// begins with prefix. Unless there is one such key, the error is ErrNoKey.
func (p *Place) ForgetKey(r *repo.Repository, prefix string, dry bool) (format.ID, error) {
	var gone []string
	folder := r.CacheFolder()
	if folder != "" && prefix != "" {
		seen := readKeysSeen(folder)
		maps.DeleteFunc(seen, func(id, what string) bool {
			match := strings.HasPrefix(what, goneMark) && strings.HasPrefix(id, strings.ToLower(prefix))
			if match {
				gone = append(gone, id)
			}
			return match
		})
		if len(gone) == 1 && !dry {
			writeKeysSeen(folder, seen)
		}
	}
	if len(gone) != 1 {
		return format.ID{}, fmt.Errorf("remove key %q: %w", prefix, repo.ErrNoKey)
	}
	return format.ParseID(gone[0])
}

// describeKeys returns a description of each slot, by its ID.
func describeKeys(slots []repo.Slot) map[string]string {
	all := make(map[string]string)
	for i := range slots {
		text := "key " + slots[i].ID.Short()
		if s := slots[i].Slot; s != nil {
			text = fmt.Sprintf("%s of %q (%s)", s.Method, s.Label, slots[i].ID.Short())
		}
		all[slots[i].ID.String()] = text
	}
	return all
}

func readKeysSeen(folder string) map[string]string {
	seen := make(map[string]string)
	f, err := os.OpenFile(filepath.Join(folder, keysSeen), os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a fifo
	if err != nil {
		return seen
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, keysSeenLimit))
	if err != nil {
		return seen
	}
	for line := range strings.Lines(string(text)) {
		name, what, whole := strings.Cut(line, " ")
		if id, err := format.ParseID(name); err == nil && whole && strings.HasSuffix(what, "\n") {
			seen[id.String()] = strings.TrimSuffix(what, "\n")
		}
	}
	return seen
}

// writeKeysSeen stores the keys if possible.
func writeKeysSeen(folder string, keys map[string]string) {
	var text strings.Builder
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&text, "%s %s\n", id, keys[id])
	}
	if os.MkdirAll(folder, 0o700) == nil {
		_ = optionfile.Replace(filepath.Join(folder, keysSeen), []byte(text.String()), 0o600) // the next run reports it again
	}
}
