package sftp

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// connecting is how long a server may take to answer and to authenticate.
const connecting = 15 * time.Second

// native is a connection without the ssh program. It knows the keys of an agent, those in ~/.ssh that need no
// passphrase, and known_hosts, but nothing of ssh_config, and asks nothing. It authenticates once for all channels.
type native struct {
	target Target

	mu     sync.Mutex
	client *ssh.Client // nil: not connected
}

// channel opens a channel. It connects if there is no connection.
func (n *native) channel(ctx context.Context) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == nil {
		client, err := n.connect(ctx)
		if err != nil {
			return nil, refused(ctx, err)
		}
		n.client = client
		go n.forget(client)
	}
	client := n.client
	stop := context.AfterFunc(ctx, func() { _ = client.Close() }) // a server that is silent
	defer stop()
	c, requests, err := client.OpenChannel("session", nil)
	if err != nil {
		return nil, refused(ctx, err)
	}
	ended := make(chan struct{})
	go func() {
		ssh.DiscardRequests(requests)
		close(ended)
	}()
	said := &beginning{}
	go func() { _, _ = io.Copy(said, c.Stderr()) }()
	kill := func() {
		go func() { _ = c.Close() }()
		time.AfterFunc(politely, func() {
			select {
			case <-ended:
			default:
				_ = client.Close() // the server is silent, and so on all channels
			}
		})
	}
	ok, err := c.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	if err != nil || !ok {
		kill()
		if err == nil {
			err = &refusal{said: "subsystem request failed", cause: errors.New("the server has no subsystem sftp")}
		}
		return nil, refused(ctx, err)
	}
	return &stream{in: c, out: c, said: said, kill: kill, wait: func() { <-ended }}, nil
}

// forget waits until a connection has ended.
func (n *native) forget(client *ssh.Client) {
	_ = client.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client == client {
		n.client = nil
	}
}

// close ends the connection.
func (n *native) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.client != nil {
		_ = n.client.Close()
	}
}

// connect connects and authenticates.
func (n *native) connect(ctx context.Context) (*ssh.Client, error) {
	name := n.target.User
	if name == "" {
		who, err := user.Current()
		if err != nil {
			return nil, err
		}
		name = who.Username
	}
	port := n.target.Port
	if port == 0 {
		port = DefaultPort
	}
	addr := net.JoinHostPort(n.target.Host, strconv.Itoa(port))
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	known, err := knownHosts(filepath.Join(home, ".ssh/known_hosts"), "/etc/ssh/ssh_known_hosts")
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: connecting}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	keys := &keyring{folder: filepath.Join(home, ".ssh"), until: time.Now().Add(connecting)}
	defer keys.close()
	_ = conn.SetDeadline(keys.until)
	c, channels, requests, err := ssh.NewClientConn(conn, addr, &ssh.ClientConfig{
		User: name, Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(keys.signers)},
		HostKeyCallback: known, HostKeyAlgorithms: algorithms(known, addr, conn.RemoteAddr()),
	})
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return ssh.NewClient(c, channels, requests), nil
}

// refused returns an error of a connection with the words of the ssh program, by which it is explained.
func refused(ctx context.Context, err error) error {
	var said string
	var key *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	var name *net.DNSError
	var known *refusal
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		return err
	case errors.As(err, &revoked):
		said = "Host key revoked"
	case errors.As(err, &key) && len(key.Want) > 0:
		said = "REMOTE HOST IDENTIFICATION HAS CHANGED"
	case errors.As(err, &key):
		said = "Host key verification failed"
	case errors.As(err, &name):
		said = "Could not resolve hostname"
	case errors.Is(err, syscall.ECONNREFUSED):
		said = "Connection refused"
	case strings.Contains(err.Error(), "unable to authenticate"), strings.Contains(err.Error(), "Too many auth"):
		said = "Permission denied"
	default:
		said = "the connection failed"
	}
	return &refusal{said: said, cause: err}
}

// knownHosts returns what compares host keys with those in files. Some may be missing. As ssh does, it skips lines that
// it does not understand, such as those with keys of an old kind.
func knownHosts(files ...string) (ssh.HostKeyCallback, error) {
	good, err := os.CreateTemp("", "tidemark-")
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = good.Close(), os.Remove(good.Name()) }()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			if _, _, _, _, _, err := ssh.ParseKnownHosts(line); err != nil {
				continue
			}
			if _, err := good.Write(append(bytes.TrimSpace(line), '\n')); err != nil {
				return nil, err
			}
		}
	}
	return knownhosts.New(good.Name())
}

// algorithms returns those of the keys that are known of a host: a server with several keys shows another one else.
func algorithms(known ssh.HostKeyCallback, addr string, remote net.Addr) (names []string) {
	none, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil
	}
	var key *knownhosts.KeyError
	if !errors.As(known(addr, remote, none), &key) {
		return nil
	}
	for _, want := range key.Want {
		if kind := want.Key.Type(); kind == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			names = append(names, kind)
		}
	}
	return names
}

// keyring has the keys of a user.
type keyring struct {
	folder string
	until  time.Time // when an agent has to have signed
	agent  net.Conn  // nil: none
}

// listing is how long an agent may take to list its keys.
const listing = 5 * time.Second

// signers returns the keys in files, and those of the agent. The files come first: a server ends the connection after
// some keys, and an agent may have many.
func (k *keyring) signers() (all []ssh.Signer, err error) {
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		text, err := os.ReadFile(filepath.Join(k.folder, name))
		if err != nil {
			continue
		}
		if signer, err := ssh.ParsePrivateKey(text); err == nil { // not one with a passphrase
			all = append(all, signer)
		}
	}
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return all, nil
	}
	if k.agent, err = net.DialTimeout("unix", socket, listing); err != nil {
		return all, nil //nolint:nilerr // there may be no agent
	}
	_ = k.agent.SetDeadline(time.Now().Add(listing))
	held, err := agent.NewClient(k.agent).Signers()
	if err != nil {
		return all, nil //nolint:nilerr // it is silent, or no agent
	}
	_ = k.agent.SetDeadline(k.until)
	return append(all, held...), nil
}

func (k *keyring) close() {
	if k.agent != nil {
		_ = k.agent.Close()
	}
}
