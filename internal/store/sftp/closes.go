package sftp

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Types of messages, and how many bytes of one hold its type and the number of its request.
const (
	typeClose  = 4
	typeStatus = 101
	numbered   = 5
)

// longestMessage bounds the length of a message. Servers send at most 256 KiB.
const longestMessage = 1 << 20

// closes answers each request to close a handle at once, and drops the answer of the server. The library waits for that
// answer at the end of each listing, which takes a turn. It decides nothing where what is written was flushed before,
// on a server with a flush.
type closes struct {
	early atomic.Bool
	given chan []byte // answers that the client has not read yet

	mu   sync.Mutex
	left map[uint32]bool // requests that were answered here and not by the server yet
}

func newCloses() *closes {
	return &closes{given: make(chan []byte, 64), left: make(map[uint32]bool)}
}

// sent looks at the beginning of a request, before it is sent.
func (c *closes) sent(head [numbered]byte) {
	if head[0] != typeClose || !c.early.Load() {
		return
	}
	id := binary.BigEndian.Uint32(head[1:])
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.given <- success(id):
		c.left[id] = true
	default: // so many closes at once wait for the server
	}
}

// drop reports whether a message of the server is an answer that was given here.
func (c *closes) drop(message []byte) bool {
	if len(message) < 4+numbered || message[4] != typeStatus {
		return false
	}
	id := binary.BigEndian.Uint32(message[5:])
	c.mu.Lock()
	defer c.mu.Unlock()
	given := c.left[id]
	delete(c.left, id)
	return given
}

// success returns the message that a request has succeeded.
func success(id uint32) []byte {
	m := binary.BigEndian.AppendUint32(nil, numbered+3*4) // without these 4 bytes
	m = append(m, typeStatus)
	m = binary.BigEndian.AppendUint32(m, id)
	return append(m, make([]byte, 3*4)...) // status 0, no text, no language
}

// answers is what a client reads: the messages of the server, and between them those that were given here.
type answers struct {
	*closes
	rest []byte      // of the message that is being read
	used []byte      // the buffer of that message; nil: it has none
	full chan []byte // messages of the server; closed at the end
	free chan []byte // buffers for them
	over <-chan struct{}
	err  error // why there are no more; set once full is closed
}

// newAnswers reads the messages of a server until over is closed.
func newAnswers(from io.Reader, c *closes, over <-chan struct{}) *answers {
	a := &answers{closes: c, full: make(chan []byte), free: make(chan []byte, 2), over: over}
	go func() {
		defer close(a.full)
		for a.err == nil {
			a.err = a.pass(from)
		}
	}()
	return a
}

// pass passes one message on.
func (a *answers) pass(from io.Reader) error {
	var buf []byte
	select {
	case buf = <-a.free:
	default:
	}
	buf = append(buf[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(from, buf); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(buf)
	if length > longestMessage {
		return errors.New("a message of the server is too long")
	}
	if need := 4 + int(length); cap(buf) < need {
		buf = append(make([]byte, 0, need), buf...)
	}
	buf = buf[:4+length]
	if _, err := io.ReadFull(from, buf[4:]); err != nil {
		return err
	}
	if a.drop(buf) {
		a.recycle(buf)
		return nil
	}
	select {
	case a.full <- buf:
		return nil
	case <-a.over:
		return io.ErrClosedPipe
	}
}

// recycle keeps a buffer for a later message.
func (a *answers) recycle(buf []byte) {
	select {
	case a.free <- buf:
	default:
	}
}

// Read returns bytes of one message.
func (a *answers) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		if a.used != nil {
			a.recycle(a.used)
			a.used = nil
		}
		select {
		case a.rest = <-a.given:
		case next, more := <-a.full:
			if !more {
				return 0, a.err
			}
			a.rest, a.used = next, next
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}
