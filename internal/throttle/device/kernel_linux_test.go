package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kernel is a sysfs of a test's own.
type kernel struct {
	t *testing.T
	*view
}

func newKernel(t *testing.T) *kernel {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return &kernel{t, &view{sys: root, mounts: filepath.Join(root, "mountinfo")}}
}

func (k *kernel) write(path, content string) {
	k.t.Helper()
	path = filepath.Join(k.sys, path)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(k.t, os.WriteFile(path, []byte(content), 0o644))
}

// link makes from, a path below the root, a relative symbolic link to another one.
func (k *kernel) link(from, to string) {
	k.t.Helper()
	from = filepath.Join(k.sys, from)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(from), 0o755))
	rel, err := filepath.Rel(filepath.Dir(from), filepath.Join(k.sys, to))
	require.NoError(k.t, err)
	require.NoError(k.t, os.Symlink(rel, from))
}

// disk adds a whole disk at a place below devices, such as "virtual/block/dm-0", and returns the place.
func (k *kernel) disk(number, at, rotational string) string {
	k.t.Helper()
	at = filepath.Join("devices", at)
	k.write(at+"/dev", number+"\n")
	if rotational != "" {
		k.write(at+"/queue/rotational", rotational+"\n")
	}
	k.link("dev/block/"+number, at)
	return at
}

// partition adds a partition to a disk, which has no queue of its own.
func (k *kernel) partition(number, disk, name string) string {
	k.t.Helper()
	at := filepath.Join(disk, name)
	k.write(at+"/dev", number+"\n")
	k.write(at+"/partition", strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz")+"\n")
	k.link("dev/block/"+number, at)
	return at
}

// stack adds a virtual device made of others.
func (k *kernel) stack(number, name, rotational string, legs ...string) string {
	k.t.Helper()
	at := k.disk(number, "virtual/block/"+name, rotational)
	for _, leg := range legs {
		k.link(at+"/slaves/"+filepath.Base(leg), leg)
	}
	return at
}

const (
	sata = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda"
	sas  = "pci0000:00/0000:00:02.0/host1/target1:0:0/1:0:0:0/block/sdb"
	usb  = "pci0000:00/0000:00:14.0/usb2/2-3/2-3:1.0/host2/target2:0:0/2:0:0:0/block/sdc"
	nvme = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1"
	vda  = "pci0000:00/0000:00:02.0/virtio1/block/vda"
)

func number(major, minor uint64) uint64 { return major<<32 | minor }
