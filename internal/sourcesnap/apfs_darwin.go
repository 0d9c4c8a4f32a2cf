package sourcesnap

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

func newAPFS() (Maker, error) {
	return &apfs{volumeOf: volumeOf, run: command, root: os.Geteuid() == 0, mounted: map[string]string{}}, nil
}

// volumeOf implements apfs.volumeOf.
func volumeOf(path string) (volume, system string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", "", fmt.Errorf("statfs %s: %w", path, err)
	}
	return unix.ByteSliceToString(st.Mntonname[:]), unix.ByteSliceToString(st.Fstypename[:]), nil
}

// command implements apfs.run.
func command(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
