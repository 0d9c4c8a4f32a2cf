package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServers(t *testing.T) {
	for _, c := range []struct{ kind, source, want string }{
		{"cifs", "//NAS/share", "nas"}, {"cifs", `\\nas\share`, "nas"}, {"cifs", "//nas", "nas"},
		{"smb3", "//nas.example.org:1445/a b", "nas.example.org"}, {"cifs", "//[fe80::1]/x", "[fe80::1]"},
		{"smbfs", "//me@nas._smb._tcp.local/Backup", "nas._smb._tcp.local"}, {"smbfs", "//work;me@nas/b", "nas"},
		{"afpfs", "//me@old/Backup", "old"}, {"webdav", "https://cloud.example.org/dav/", "cloud.example.org"},
		{"nfs", "nas:/export", "nas"}, {"nfs4", "10.0.0.7:/", "10.0.0.7"}, {"nfs4", "[fe80::1]:/srv", "[fe80::1]"},
		{"nfs", "fe80::1:/srv", "fe80::1"},
		{"fuse.sshfs", "me@Host:/home", "host"}, {"fuse.sshfs", "host:", "host"}, {"fuse.sshfs", "me@host:dir:1", "host"},
		{"fuse.sshfs", "me@[fe80::1]:dir", "[fe80::1]"}, {"fuse.rclone", "drive:photos", "drive"},
		{"fuse.davfs", "http://me:secret@cloud:8080/dav", "cloud"}, {"fuse", "curlftpfs#ftp://me:pw@files/", "files"},
		{"fuse.s3fs", "s3fs", "s3fs"}, {"fuse.glusterfs", "node1:vol", "node1"},
		{"ceph", "mon1:6789,mon2:6789:/", "mon1:6789,mon2:6789"}, {"ceph", "admin@fsid.cephfs=/dir", "fsid.cephfs"},
		{"lustre", "10.0.0.1@tcp:/fs", "10.0.0.1@tcp"}, {"afs", "#example.org:root.cell.", "example.org"},
		{"9p", "share", "share"}, {"virtiofs", "label", "host"}, {"virtiofs", "other", "host"},
		{"nfs", "", ""}, {"nfs", "none", ""}, {"cifs", "//", ""}, {"cifs", "//me@/x", ""}, {"fuse.sshfs", ":dir", ""},
	} {
		require.Equal(t, c.want, serverOf(c.kind, c.source), "%s %s", c.kind, c.source)
	}
}

func TestLoginsAreDropped(t *testing.T) {
	for source, want := range map[string]string{
		"": "", "//nas/share": "//nas/share", "//me@nas/share": "//nas/share", "nas:/export": "nas:/export",
		"http://me:secret@cloud:8080/d@v": "http://cloud:8080/d@v", "ftp://me:s@x": "ftp://x", "me@host:/x": "me@host:/x",
	} {
		require.Equal(t, want, withoutLogin(source))
	}
}

func TestProtocols(t *testing.T) {
	for kind, want := range map[string]string{
		"smb3": "cifs", "smb2": "cifs", "cifs": "cifs", "nfs4": "nfs", "nfs": "nfs", "fuse.sshfs": "fuse.sshfs",
	} {
		require.Equal(t, want, protocol(kind))
	}
}

func TestWholeDisksOfMacOS(t *testing.T) {
	for device, want := range map[string]string{
		"/dev/disk0s1": "disk0", "/dev/disk3s1s1": "disk3", "/dev/disk12": "disk12", "/dev/disk12s5": "disk12",
		"com.apple.TimeMachine.2026-11-28-120000.local@/dev/disk3s5": "disk3",
		"/dev/disk": "", "/dev/disks1": "", "/dev/disk1x": "", "disk0s1": "", "map auto_home": "", "": "", "/dev/rdisk1": "",
	} {
		require.Equal(t, want, wholeDisk(device), device)
	}
}
