package sysinfo

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// ThisBoot returns the boot that the system runs since.
func ThisBoot() (b Boot) {
	text, err := ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Boot{}
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if n, err := hex.Decode(b.ID[:], []byte(digits[:min(len(digits), hex.EncodedLen(len(b.ID)))])); err != nil ||
		n != len(b.ID) {
		return Boot{}
	}
	if text, err = ReadFile("/proc/uptime"); err != nil {
		return b
	}
	first, _, _ := strings.Cut(string(text), " ")
	if seconds, err := strconv.ParseFloat(first, 64); err == nil {
		b.At = time.Now().Add(-time.Duration(seconds * float64(time.Second)))
	}
	return b
}
