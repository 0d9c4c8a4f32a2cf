package localfs

import (
	"encoding/hex"
	"os"
	"strings"
)

// Boot returns what tells this run of the kernel from every other one; false where it is not told. What happens to a file
// system while it is not mounted, or in a crash, leaves no trace in the times of its directories. All that happens within
// one Boot does, as FSInfo.Dated says.
func Boot() (id [16]byte, ok bool) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, false
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if len(digits) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err = hex.Decode(id[:], []byte(digits))
	return id, err == nil && id != [16]byte{}
}
