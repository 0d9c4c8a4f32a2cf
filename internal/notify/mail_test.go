package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// smtpServer is an SMTP server for one connection at a time.
type smtpServer struct {
	address  string
	tls      *tls.Config
	startTLS bool
	login    string        // required user and password, base64 of "\0user\0password"; "": none
	mails    chan []string // the lines of each connection
}

// newSMTP starts a server; with implicit, the connection is TLS from the first byte.
func newSMTP(t *testing.T, s *smtpServer, implicit bool) (*smtpServer, *tls.Config) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	s.tls = &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	s.mails = make(chan []string, 9)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if implicit {
		listener = tls.NewListener(listener, s.tls)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s.address = listener.Addr().String()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.serve(c)
		}
	}()
	return s, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// serve speaks SMTP until QUIT or the end of the connection.
func (s *smtpServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, secure := c.(*tls.Conn)
	in := bufio.NewReader(c)
	var all []string
	defer func() { s.mails <- all }()
	say := func(text string) { _, _ = fmt.Fprintf(c, "%s\r\n", text) }
	say("220 test ESMTP")
	authed := s.login == ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		all = append(all, line)
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		switch {
		case verb == "EHLO":
			say("250-test")
			if s.startTLS && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go")
			c = tls.Server(c, s.tls)
			in, secure = bufio.NewReader(c), true
		case verb == "AUTH":
			if authed = line == "AUTH PLAIN "+s.login; authed {
				say("235 welcome")
			} else {
				say("535 wrong password")
			}
		case verb == "MAIL" && !authed:
			say("530 authenticate first")
		case verb == "DATA":
			say("354 go")
			for {
				line, err := in.ReadString('\n')
				if err != nil || line == ".\r\n" {
					break
				}
				all = append(all, strings.TrimRight(line, "\r\n"))
			}
			say("250 queued")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func mailOptions(server string) *options.Notify {
	return &options.Notify{Mail: options.Mail{To: []string{"me@example.org", "you@example.org"}, From: "box@example.org",
		Server: server}}
}

func requireMail(t *testing.T, lines []string) {
	text := strings.Join(lines, "\n")
	for _, part := range []string{"MAIL FROM:<box@example.org>", "RCPT TO:<me@example.org>", "RCPT TO:<you@example.org>",
		"Subject: tidemark: home on box: backup failed", "Auto-Submitted: auto-generated", "Backup failed: x"} {
		require.Contains(t, text, part)
	}
}

func withPassword(t *testing.T, o *options.Notify, password string) *options.Notify {
	o.Mail.User, o.Mail.PasswordFile = "me", filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(o.Mail.PasswordFile, []byte(password+"\nmore\n"), 0o600))
	return o
}

func login(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte("\x00" + user + "\x00" + password))
}

func TestMailWithoutTLS(t *testing.T) {
	s, _ := newSMTP(t, &smtpServer{}, false)
	require.NoError(t, (&mailer{}).send(t.Context(), mailOptions(s.address), message()))
	requireMail(t, <-s.mails)
}

func TestMailWithSTARTTLSAndPassword(t *testing.T) {
	s, roots := newSMTP(t, &smtpServer{startTLS: true, login: login("me", "S3CRET")}, false)
	require.NoError(t, (&mailer{tls: roots}).send(t.Context(), withPassword(t, mailOptions(s.address), "S3CRET"),
		message()))
	lines := <-s.mails
	require.Contains(t, lines, "STARTTLS")
	requireMail(t, lines)

	err := (&mailer{tls: roots}).send(t.Context(), withPassword(t, mailOptions(s.address), "WR0NG"), message())
	require.ErrorContains(t, err, "wrong password")
	require.NotContains(t, err.Error(), "WR0NG")
	require.NotContains(t, err.Error(), login("me", "WR0NG"))
	<-s.mails

	require.Error(t, (&mailer{}).send(t.Context(), mailOptions(s.address), message()), "a certificate that is not trusted")
}

func TestPasswordIsNotSentWithoutTLS(t *testing.T) {
	s, _ := newSMTP(t, &smtpServer{login: login("me", "S3CRET")}, false)
	require.Error(t, (&mailer{}).send(t.Context(), withPassword(t, mailOptions(s.address), "S3CRET"), message()))
	require.NotContains(t, strings.Join(<-s.mails, "\n"), "AUTH")
}

func TestMailWithTLSFromTheFirstByte(t *testing.T) {
	s, roots := newSMTP(t, &smtpServer{login: login("me", "S3CRET")}, true)
	m := &mailer{tls: roots, implicit: func(int) bool { return true }}
	require.NoError(t, m.send(t.Context(), withPassword(t, mailOptions(s.address), "S3CRET"), message()))
	requireMail(t, <-s.mails)
	require.True(t, implicitTLS(465))
	require.False(t, implicitTLS(587))
}

func TestMistakesInMailOptions(t *testing.T) {
	for want, change := range map[string]func(*options.Mail){
		"the port is no number": func(m *options.Mail) { m.Server = "x:smtp" },
		"notify-mail: ":         func(m *options.Mail) { m.To = []string{"not an address"} },
		"mail-from: ":           func(m *options.Mail) { m.From = "a\nBcc: b@x" },
		"mail-user needs":       func(m *options.Mail) { m.User = "me" },
		"no such file":          func(m *options.Mail) { m.User, m.PasswordFile = "me", "/does/not/exist" },
		"no sendmail":           func(m *options.Mail) { m.Server = "" },
	} {
		o := mailOptions("127.0.0.1:1")
		change(&o.Mail)
		m := &mailer{sendmail: func() (string, error) { return "", errors.New("no sendmail") }}
		require.ErrorContains(t, m.send(t.Context(), o, message()), want)
	}
}

func TestMailBySendmail(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "sendmail")
	script := "#!/bin/sh\n[ -z \"$TIDEMARK_PASSWORD\" ] || exit 9\necho \"$@\" > " + dir + "/args\ncat > " + dir +
		"/mail\n"
	require.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	t.Setenv("TIDEMARK_PASSWORD", "S3CRET")
	m := &mailer{sendmail: func() (string, error) { return program, nil }}
	require.NoError(t, m.send(t.Context(), mailOptions(""), message()))
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	require.NoError(t, err)
	require.Equal(t, "-oi -t\n", string(args))
	text, err := os.ReadFile(filepath.Join(dir, "mail"))
	require.NoError(t, err)
	require.Contains(t, string(text), "Subject: tidemark: home on box: backup failed")
	require.Contains(t, string(text), "<you@example.org>")

	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\necho no relay; exit 75\n"), 0o755))
	require.ErrorContains(t, m.send(t.Context(), mailOptions(""), message()), "exit status 75: no relay")
}
