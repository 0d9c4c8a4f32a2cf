package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// The ports of SMTP: with TLS from the first byte, and for users, who may begin TLS later.
const (
	portTLS    = 465
	portSubmit = 587
)

// mailer sends mails.
type mailer struct {
	sendmail func() (path string, err error)
	tls      *tls.Config         // nil: certificates of the system
	implicit func(port int) bool // whether TLS begins with the first byte; nil: implicitTLS
}

// send sends a mail through the SMTP server of the options, or else by sendmail.
func (s *mailer) send(ctx context.Context, o *options.Notify, m *event.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, 2*once)
	defer cancel()
	msg, err := compose(&o.Mail, m)
	if err != nil {
		return err
	}
	if o.Mail.Server == "" {
		return s.pipe(ctx, msg)
	}
	c, hangUp, err := s.client(&o.Mail)
	if err != nil {
		return err
	}
	defer hangUp() // the client leaves a connection open that it cannot use
	if err := c.DialAndSendWithContext(ctx, msg); err != nil {
		return fmt.Errorf("%s: %w", o.Mail.Server, err)
	}
	return nil
}

func compose(o *options.Mail, m *event.Notification) (*mail.Msg, error) {
	msg := mail.NewMsg()
	if err := msg.From(sendingAddress(o, m.Host)); err != nil {
		return nil, fmt.Errorf("mail-from: %w", err)
	}
	if err := msg.To(o.To...); err != nil {
		return nil, fmt.Errorf("notify-mail: %w", err)
	}
	msg.Subject(subject(m))
	msg.SetDateWithValue(m.Time)
	msg.SetMessageID()
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic answers
	msg.SetBodyString(mail.TypeTextPlain, text(m))
	return msg, nil
}

// sendingAddress returns the address of the option, or user@host.
func sendingAddress(o *options.Mail, host string) string {
	if o.From != "" {
		return o.From
	}
	name := "tidemark"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + host
}

// client returns a client of the server, and a function that closes its connection. Port 465 is TLS. Elsewhere
// STARTTLS is used: always with a user, otherwise if the server offers it.
func (s *mailer) client(o *options.Mail) (c *mail.Client, hangUp func(), err error) {
	host, port, err := address(o.Server)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.tls != nil {
		config = s.tls.Clone()
	}
	config.ServerName = host
	direct := s.implicit != nil && s.implicit(port) || s.implicit == nil && implicitTLS(port)
	var used net.Conn
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		used = conn
		return conn, err
	}
	hangUp = func() {
		if used != nil {
			_ = used.Close() // the mail was accepted or not before
		}
	}
	settings := []mail.Option{mail.WithPort(port), mail.WithTimeout(once), mail.WithTLSConfig(config)}
	if direct { // with a dial function, the client takes the connection for plain text
		settings = append(settings, mail.WithSSL())
	} else {
		settings = append(settings, mail.WithTLSPolicy(mail.TLSOpportunistic), mail.WithDialContextFunc(dial))
	}
	if o.User != "" {
		password, err := firstLine(o.PasswordFile)
		if err != nil {
			return nil, nil, err
		}
		settings = append(settings, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover),
			mail.WithUsername(o.User), mail.WithPassword(password))
	}
	c, err = mail.NewClient(host, settings...)
	return c, hangUp, err
}

// implicitTLS reports whether a server speaks TLS from the first byte at a port.
func implicitTLS(port int) bool { return port == portTLS }

// address splits host:port; without a port it is that for users.
func address(server string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(server)
	if err != nil {
		return strings.Trim(server, "[]"), portSubmit, nil
	}
	port, err = strconv.Atoi(digits)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("mail-server %s: the port is no number from 1 to 65535", server)
	}
	return host, port, nil
}

func firstLine(path string) (string, error) {
	if path == "" {
		return "", errors.New("mail-user needs a mail-password-file")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the password for mails: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

// pipe passes a mail to sendmail, which reads the receivers from its header. The environment of this process may hold
// secrets, and is not passed on.
func (s *mailer) pipe(ctx context.Context, msg *mail.Msg) error {
	program, err := s.sendmail()
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if _, err := msg.WriteTo(&body); err != nil {
		return fmt.Errorf("write the mail: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "-oi", "-t")
	cmd.Stdin, cmd.Env, cmd.WaitDelay = &body, plainEnvironment(), once
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w%s", program, err, lastWords(out))
	}
	return nil
}

func findSendmail() (string, error) {
	for _, name := range []string{"/usr/sbin/sendmail", "/usr/lib/sendmail", "sendmail"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("the program sendmail was not found; name a mail-server")
}

// plainEnvironment returns what programs need of the environment.
func plainEnvironment() (env []string) {
	for _, name := range []string{"PATH", "HOME", "LANG", "USER", "LOGNAME"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// lastWords returns the first line that a program printed, to be appended to an error.
func lastWords(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" {
		return ""
	}
	return ": " + line
}
