package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pkg/sftp"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// goOn ends the advice on most problems.
const goOn = "and " + store.RunAgain

// spare is the free space below which a failed write is taken for a full disk, in bytes: the protocol has no status
// for that.
const spare = 1 << 20

// answered reports whether an error is an answer of the server.
func answered(err error) bool {
	var status *sftp.StatusError
	return errors.As(err, &status) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, fs.ErrExist)
}

// orFull returns store.ErrNoSpace for a failure of a server whose disk has not room for n more bytes.
func (s *Store) orFull(c *channel, n int, err error) error {
	var status *sftp.StatusError
	if !errors.As(err, &status) {
		return err
	}
	disk, unknown := c.StatVFS(s.at(""))
	if unknown != nil || disk.Frsize*disk.Bavail > uint64(n)+spare {
		return err
	}
	return &store.Problem{What: "no space left at " + s.Location(), Do: store.FreeSpace(s.Location()) + ", " + goOn,
		Kinds: []error{store.ErrNoSpace}}
}

// explain returns an error of an operation for users.
func (s *Store) explain(ctx context.Context, c *channel, err error) error {
	var known *store.Problem
	var status *sftp.StatusError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known), store.IsAny(err, store.ErrNotExist, store.ErrExists, store.ErrFenced, store.ErrShort,
		store.ErrTemporary, store.ErrName):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return store.ErrNotExist
	case errors.Is(err, fs.ErrPermission):
		return &store.Problem{What: "access to " + s.Location() + " is denied",
			Do: "give the user on the server the right to read and write there, " + goOn, Kinds: []error{store.ErrDenied}}
	case errors.As(err, &status):
		return &store.Problem{What: s.target.Host + " refuses a request", Cause: err,
			Do: "look at its disk, its quotas and its log, " + goOn}
	}
	c.kill() // a request that was not answered; no other can rely on this channel
	return &store.Problem{What: "the connection to " + s.target.Host + " was lost", Cause: err,
		Do: "see that the server is up, " + goOn, Kinds: []error{store.ErrGone, store.ErrTemporary}}
}

// explainDial explains why there is no channel. Messages of ssh decide, since its status is 255 for all. Once the
// server has answered, what a restart causes is temporary.
func (s *Store) explainDial(ctx context.Context, err error) error {
	host := s.target.Host
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var r *refusal
	if !errors.As(err, &r) {
		return s.away(err)
	}
	said := func(text string) bool { return strings.Contains(r.said, text) }
	try := "'ssh " + s.login() + "'"
	p := &store.Problem{Cause: err, Kinds: []error{store.ErrDenied}}
	switch {
	case said("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		p.What, p.Cause = "the host key of "+host+" has changed", errors.New("known_hosts has another")
		p.Do = "if the server was set up again, remove the old key" + s.do(" with 'ssh-keygen -R "+s.known()+"'",
			", the line of "+s.known()+", from ~/.ssh/known_hosts") + "; otherwise another machine may be in between: " +
			"do not connect"
	case said("Host key revoked"):
		p.What, p.Cause = "the host key of "+host+" is revoked", errors.New("known_hosts says so")
		p.Do = "do not connect: ask who runs the server for its new key"
	case said("Host key verification failed"), said("host key is known"):
		p.What = "the host key of " + host + " is not known"
		p.Do = s.advice("run "+try+" once, compare the key it shows with that of the server",
			"add its line to ~/.ssh/known_hosts, from a machine that knows it")
	case said("Permission denied"), said("Too many authentication failures"):
		p.What = host + " does not accept this user"
		p.Do = s.advice("see that "+try+" works without a question (a key in an agent, or named in ~/.ssh/config)",
			"name the user in the address, and start an agent or put a key without a passphrase into ~/.ssh")
	case said("Could not resolve hostname"):
		p.What, p.Kinds = "there is no host "+host, []error{store.ErrGone}
		p.Do = s.advice("correct its name in the address", "name it as the network does: ~/.ssh/config is not read")
		return s.temporary(p)
	case said("Connection refused"):
		p.What, p.Do, p.Kinds = host+" refuses connections", "see that sshd runs there and the port is right, "+goOn,
			[]error{store.ErrGone}
		return s.temporary(p)
	case r.said == "" && !s.reached.Load():
		p.What, p.Kinds = host+" ended the channel for SFTP at once", []error{store.ErrGone}
		p.Do = "see that it is up, and that its sshd_config has 'Subsystem sftp internal-sftp', " + goOn
	case said("subsystem request failed"):
		p.What, p.Do = host+" has no SFTP", "add 'Subsystem sftp internal-sftp' to its sshd_config, "+goOn
	default:
		return s.away(err)
	}
	return p
}

// do returns the words for a connection by the ssh program, or those for a machine without it.
func (s *Store) do(with, without string) string {
	if s.own {
		return without
	}
	return with
}

// advice ends what do returns.
func (s *Store) advice(with, without string) string {
	return s.do(with, without+", or install the SSH client (openssh-client)") + ", " + goOn
}

// known returns how known_hosts names the server.
func (s *Store) known() string {
	if s.target.Port == 0 || s.target.Port == DefaultPort {
		return s.target.Host
	}
	return fmt.Sprintf("[%s]:%d", s.target.Host, s.target.Port)
}

// login returns the arguments of ssh for a person.
func (s *Store) login() string {
	text := s.target.Host
	if s.target.User != "" {
		text = s.target.User + "@" + text
	}
	if s.target.Port != 0 {
		text = "-p " + strconv.Itoa(s.target.Port) + " " + text
	}
	return text
}

// away is that a server does not answer.
func (s *Store) away(err error) error {
	return s.temporary(&store.Problem{What: s.target.Host + " cannot be reached", Cause: err,
		Do: s.advice("see that it is up and 'ssh "+s.login()+"' works", "see that it is up"), Kinds: []error{store.ErrGone}})
}

// temporary marks a problem as one that may pass, once the server has answered.
func (s *Store) temporary(p *store.Problem) error {
	if s.reached.Load() {
		p.Kinds = append(p.Kinds, store.ErrTemporary)
	}
	return p
}
