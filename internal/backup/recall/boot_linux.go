package recall

import (
	"encoding/hex"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/kernelfile"
)

// ThisBoot returns the Boot that we live in.
func ThisBoot() (b Boot) {
	text, err := kernelfile.Read("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Boot{}
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if n, err := hex.Decode(b[:], []byte(digits[:min(len(digits), hex.EncodedLen(len(b)))])); err != nil || n != len(b) {
		return Boot{}
	}
	return b
}
