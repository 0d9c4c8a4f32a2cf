package throttle

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// mediaFile stores the classification of disks whose rotational flag is weak evidence: a JSON object from name and size
// of a disk to "ssd" or "hdd". It lies in Config.State, may be deleted at any time, and counts as empty when
// unreadable.
const mediaFile = "media.json"

// mediaLimit is the maximum size of the file, in bytes.
const mediaLimit = 64 << 10

// diskKey names the disks of a device in mediaFile; "" if there are none.
func diskKey(info device.Info) string {
	var parts []string
	for _, leaf := range info.Leaves {
		if leaf.Sysfs == "" {
			return ""
		}
		size, err := sysinfo.ReadFile(filepath.Join(leaf.Sysfs, "size"))
		if err != nil {
			return ""
		}
		parts = append(parts, leaf.Name+":"+strings.TrimSpace(string(size)))
	}
	return strings.Join(parts, ",")
}

// readMedia reads mediaFile in a directory; empty if there is none.
func readMedia(dir string) map[string]string {
	known := map[string]string{}
	if dir == "" {
		return known
	}
	f, err := os.OpenFile(filepath.Join(dir, mediaFile), os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a fifo
	if err != nil {
		return known
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > mediaLimit {
		return known
	}
	text, err := io.ReadAll(io.LimitReader(f, mediaLimit))
	if err != nil || json.Unmarshal(text, &known) != nil || known == nil { // null is JSON too
		return map[string]string{}
	}
	return known
}

// Known returns info with the medium that an earlier run classified, which keeps its state in a directory. Without one,
// a disk behind a hypervisor or a bridge starts as solid state: most are, and the classifier corrects it within a
// second.
func Known(state string, info device.Info) device.Info {
	if !info.Weak {
		return info
	}
	medium := device.ParseMedium(readMedia(state)[diskKey(info)])
	if medium == device.SSD || medium == device.HDD {
		info.Medium, info.Why = medium, "An earlier run measured how long random reads take."
	} else if info.Medium == device.Unknown && len(info.Leaves) > 0 {
		info.Medium = device.SSD
	}
	return info
}

// remember saves the classifications of this run. Two runs at once may lose an entry, which the next run restores.
func (m *Manager) remember() error {
	if m.cfg.State == "" {
		return nil
	}
	known, changed := readMedia(m.cfg.State), false
	for _, e := range m.all() {
		medium, decided, _ := e.classifier.Medium()
		if key := diskKey(e.info); e.info.Weak && decided && key != "" && known[key] != medium.String() {
			known[key], changed = medium.String(), true
		}
	}
	if !changed {
		return nil
	}
	text, err := json.Marshal(known)
	if err != nil {
		return fmt.Errorf("encode media: %w", err)
	}
	temp, err := os.CreateTemp(m.cfg.State, mediaFile+".*")
	if errors.Is(err, os.ErrNotExist) {
		return nil // no cache directory
	}
	if err != nil {
		return fmt.Errorf("save media: %w", err)
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), filepath.Join(m.cfg.State, mediaFile))
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("save media: %w", err)
	}
	return nil
}
