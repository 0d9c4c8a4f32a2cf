// Package s3test starts S3 servers for tests: versitygw over TLS, and a server in the process of the test that answers
// as real ones do only now and then.
package s3test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/stretchr/testify/require"
)

// The keys and the bucket of a server.
const (
	ID     = "tidemarktest"
	Secret = "geheim-0123456789"
	Bucket = "backup"
)

// Version is that of versitygw which the tests are made for. Earlier ones let several writers get one name.
const Version = "v1.8.0"

// Server is a versitygw that ends with the test.
type Server struct {
	Addr    string // host:port
	Folder  string // the buckets
	past    string // older versions of objects; "": none are kept
	CA      []byte // its certificate in PEM form
	t       testing.TB
	dir     string
	program string
	run     *exec.Cmd
	said    bytes.Buffer
}

// Start starts a versitygw with a bucket. It skips the test where there is none, and fails it in CI.
func Start(t testing.TB) *Server {
	s := prepare(t)
	require.NoError(t, os.MkdirAll(filepath.Join(s.Folder, Bucket), 0o700))
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// StartLocked is Start with a bucket that keeps versions and locks objects.
func StartLocked(t testing.TB) *Server {
	s := prepare(t)
	s.past = filepath.Join(s.dir, "versions")
	require.NoError(t, os.MkdirAll(s.Folder, 0o700))
	require.NoError(t, os.Mkdir(s.past, 0o700))
	s.Run()
	t.Cleanup(s.Kill)
	require.NoError(t, s.Client().MakeBucket(t.Context(), Bucket, minio.MakeBucketOptions{ObjectLocking: true}))
	return s
}

// Client returns a client of the server with the keys of the repository, such as an attacker has.
func (s *Server) Client() *minio.Client {
	s.t.Helper()
	roots := x509.NewCertPool()
	require.True(s.t, roots.AppendCertsFromPEM(s.CA))
	client, err := minio.New(s.Addr, &minio.Options{Creds: credentials.NewStaticV4(ID, Secret, ""), Secure: true,
		Region: "us-east-1", Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}})
	require.NoError(s.t, err)
	return client
}

// prepare returns a server that does not run yet.
func prepare(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		const how = "needs versitygw: go install github.com/versity/versitygw/cmd/versitygw@" + Version
		if os.Getenv("CI") != "" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	s := &Server{t: t, dir: t.TempDir(), Addr: freeAddress(t), program: program}
	s.Folder = filepath.Join(s.dir, "buckets")
	s.certificate()
	return s
}

// Beside starts a second gateway to the same files, with the same certificate. Nothing joins the locks of the two: each
// may give one name to a writer of its own.
func (s *Server) Beside() *Server {
	s.t.Helper()
	second := &Server{t: s.t, dir: s.dir, Addr: freeAddress(s.t), program: s.program, Folder: s.Folder, CA: s.CA}
	second.Run()
	s.t.Cleanup(second.Kill)
	return second
}

// freeAddress returns an address of this machine that nothing listens on.
func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// certificate makes a certificate for this machine.
func (s *Server) certificate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(s.t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tidemark test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	require.NoError(s.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(s.t, err)
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.NoError(s.t, os.WriteFile(s.CAFile(), s.CA, 0o600))
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "key.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// CAFile returns the path of the certificate.
func (s *Server) CAFile() string { return filepath.Join(s.dir, "cert.pem") }

// Restart kills the server and starts it again.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.Run()
}

// Run starts the server, also again after Kill, at the same address.
func (s *Server) Run() {
	s.t.Helper()
	s.said.Reset()
	s.run = exec.Command(s.program, "--access", ID, "--secret", Secret, "--port", s.Addr, "--cert", s.CAFile(),
		"--key", filepath.Join(s.dir, "key.pem"), "--quiet", "--keep-alive", "posix")
	if s.past != "" {
		s.run.Args = append(s.run.Args, "--versioning-dir", s.past)
	}
	s.run.Args = append(s.run.Args, s.Folder)
	s.run.Stdout, s.run.Stderr = &s.said, &s.said
	require.NoError(s.t, s.run.Start())
	for range 300 {
		if c, err := net.DialTimeout("tcp", s.Addr, time.Second); err == nil {
			require.NoError(s.t, c.Close())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Kill()
	s.t.Fatalf("versitygw does not listen: %s", s.said.String())
}

// Kill ends the server at once.
func (s *Server) Kill() {
	_ = s.run.Process.Kill()
	_ = s.run.Wait()
}

// Port returns the number of the port.
func (s *Server) Port() int {
	_, port, err := net.SplitHostPort(s.Addr)
	require.NoError(s.t, err)
	n, err := strconv.Atoi(port)
	require.NoError(s.t, err)
	return n
}
