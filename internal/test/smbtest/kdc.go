package smbtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Realm is the realm of the KDC.
const Realm = "TIDEMARK.TEST"

// KDC is a real MIT Kerberos server on a port of the loopback interface. It has the user of the servers, with the
// password Password, and one service: an SMB server on the host "localhost".
type KDC struct {
	Config string // for KRB5_CONFIG

	t      testing.TB
	dir    string
	keytab string
	server *exec.Cmd
}

// StartKDC runs a KDC until the test ends.
func StartKDC(t testing.TB) *KDC {
	t.Helper()
	for _, tool := range []string{"krb5kdc", "kdb5_util", "kadmin.local", "kinit"} {
		if find(tool) == "" {
			t.Skipf("needs MIT Kerberos: %s is not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)", tool)
		}
	}
	me, err := user.Current()
	require.NoError(t, err)
	dir := t.TempDir()
	k := &KDC{Config: filepath.Join(dir, "krb5.conf"), t: t, dir: dir, keytab: filepath.Join(dir, "keytab")}
	port := strconv.Itoa(ownPort(t))
	k.write("krb5.conf", "[libdefaults]", "default_realm = "+Realm, "dns_lookup_kdc = false", "dns_lookup_realm = false",
		"rdns = false", "dns_canonicalize_hostname = false", "[realms]", Realm+" = {", "kdc = 127.0.0.1:"+port, "}")
	// A PAC is added by Windows domains, and this KDC is none.
	k.write("kdc.conf", "[kdcdefaults]", "kdc_listen = 127.0.0.1:"+port, "kdc_tcp_listen = 127.0.0.1:"+port, "[realms]",
		Realm+" = {",
		"database_name = "+dir+"/principal", "key_stash_file = "+dir+"/stash", "acl_file = "+dir+"/acl", "disable_pac = true",
		"supported_enctypes = aes256-cts:normal aes128-cts:normal", "}")
	k.tool("", "kdb5_util", "create", "-s", "-P", "master", "-r", Realm)
	k.tool("", "kadmin.local", "-q", fmt.Sprintf("addprinc -pw %q %s@%s", Password, me.Username, Realm))
	k.tool("", "kadmin.local", "-q", "addprinc -randkey cifs/localhost@"+Realm)
	k.tool("", "kadmin.local", "-q", "ktadd -k "+k.keytab+" cifs/localhost@"+Realm)
	k.server = k.command("krb5kdc", "-n")
	k.server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, k.server.Start())
	t.Cleanup(k.Kill)
	for limit := time.Now().Add(starting); ; time.Sleep(patience) {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			_ = c.Close()
			return k
		}
		require.True(t, time.Now().Before(limit), "krb5kdc listens")
	}
}

// Kill ends the KDC.
func (k *KDC) Kill() {
	if k.server != nil {
		_ = k.server.Process.Kill()
		_ = k.server.Wait() // it is killed
		k.server = nil
	}
}

func (k *KDC) write(name string, lines ...string) {
	k.t.Helper()
	require.NoError(k.t, os.WriteFile(filepath.Join(k.dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

func (k *KDC) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(find(name), args...)
	c.Env = append(os.Environ(), "KRB5_CONFIG="+k.Config, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"))
	return c
}

func (k *KDC) tool(input, name string, args ...string) {
	k.t.Helper()
	c := k.command(name, args...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	require.NoError(k.t, err, "%s: %s", name, out)
}

// Server returns the configuration by which an SMB server accepts tickets of this KDC.
func (k *KDC) Server() []string {
	return []string{"realm = " + Realm, "kerberos method = dedicated keytab", "dedicated keytab file = FILE:" + k.keytab}
}

// Ticket obtains a ticket with that lifetime, and returns its file.
func (k *KDC) Ticket(lifetime time.Duration) string {
	k.t.Helper()
	me, err := user.Current()
	require.NoError(k.t, err)
	path := filepath.Join(k.t.TempDir(), "tickets")
	k.tool(Password+"\n", "kinit", "-l", strconv.Itoa(int(lifetime.Seconds()))+"s", "-c", "FILE:"+path,
		me.Username+"@"+Realm)
	return path
}
