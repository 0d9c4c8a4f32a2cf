package session

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Numbers of the protocol, from [MS-SMB2] 2.2.
const (
	frameHeader  = 4 // the length of what follows, in the last three bytes
	headerSize   = 64
	cmdNegotiate = 0
	cmdSetup     = 1
	cmdTree      = 3
	dialectAny   = 0x02ff
	dialect202   = 0x0202
	dialect210   = 0x0210
	dialect300   = 0x0300
	dialect302   = 0x0302
	dialect311   = 0x0311
	capEncrypt   = 0x40 // of a server's answer, dialects 3.0 and 3.0.2
	ctxEncrypt   = 2    // a negotiate context of dialect 3.1.1
	flagGuest    = 1    // of a session
	flagNull     = 2
	flagEncrypt  = 4
	// maxHandshake bounds the frames that are buffered whole during the handshake; servers send some hundred bytes.
	maxHandshake = 1 << 20
	// ahead is how much is read at a time when the library requests less. An answer without data is shorter, so that it
	// takes one system call instead of two.
	ahead = 4 << 10
	// sendStep is how much of a frame is written at a time by default.
	sendStep = 256 << 10
	// blocked is how long a write takes at least that had to wait until the server took something. A shorter one only
	// filled the buffer of the socket, which a silent server does not hinder.
	blocked = 50 * time.Millisecond
)

// wire wraps the connection of the protocol library. It records when a byte last moved, sends each request in one
// write, and refuses to send in clear when encryption is required. It also reads the answers of the handshake: to
// explain a refusal, to detect a guest session, and to switch encryption on, which the library does only if the server
// demands it.
type wire struct {
	net.Conn
	prefer  bool        // encrypt where the server offers AES-GCM
	encrypt atomic.Bool // nothing but the handshake may be sent in clear
	guest   bool        // a guest session is allowed
	moved   atomic.Int64
	settled atomic.Bool   // the handshake is over: frames are not inspected
	status  atomic.Uint32 // of the last answer to a session setup
	refusal atomic.Pointer[error]
	end     atomic.Pointer[func(error)] // called when the server has closed the connection
	header  [frameHeader]byte           // of the frame that is being written
	pending bool                        // header was given and waits for its frame
	held    []byte                      // what was read ahead of the library
	buffer  [ahead]byte                 // for held, after the handshake
	cipher  bool                        // the server agreed on encryption
	link    link
	step    int // bytes of one write at most
	server  *server
}

func newWire(c net.Conn, p Protection, guest bool) *wire {
	w := &wire{Conn: c, prefer: p == Protected, guest: guest, step: sendStep, server: &server{}}
	w.encrypt.Store(p == Encrypted)
	w.moved.Store(time.Now().UnixNano())
	return w
}

// lastMoved returns when a byte was last received, or sent and taken.
func (w *wire) lastMoved() time.Time { return time.Unix(0, w.moved.Load()) }

// Write is called by the library for the header of a frame and then for the frame.
func (w *wire) Write(p []byte) (int, error) {
	if !w.pending && len(p) == frameHeader {
		copy(w.header[:], p)
		w.pending = true
		return len(p), nil
	}
	w.pending = false
	if w.encrypt.Load() && len(p) >= headerSize && p[0] == 0xfe {
		if cmd := binary.LittleEndian.Uint16(p[12:]); cmd != cmdNegotiate && cmd != cmdSetup && cmd != cmdTree {
			return 0, w.refuse(fmt.Errorf("%w: the server does not encrypt this share", ErrInsecure))
		}
	}
	w.link.leaves(p)
	n, err := w.send(p)
	return max(0, n-frameHeader), err
}

// send writes the header and p in steps, so that progress within a large frame is recorded: on a slow line a megabyte
// takes longer than the timeout. It returns the number of bytes sent, including the header.
func (w *wire) send(p []byte) (int, error) {
	first, began := min(w.step, len(p)), time.Now()
	n64, err := (&net.Buffers{w.header[:], p[:first]}).WriteTo(w.Conn)
	done := int(n64)
	for off := first; err == nil && off < len(p); {
		began = w.sent(began)
		var n int
		n, err = w.Conn.Write(p[off:min(off+w.step, len(p))])
		off, done = off+n, done+n
	}
	w.sent(began)
	return done, err
}

// sent records a write that had to wait, and returns the time.
func (w *wire) sent(began time.Time) (now time.Time) {
	now = time.Now()
	if now.Sub(began) >= blocked {
		w.moved.Store(now.UnixNano())
	}
	return now
}

// Read returns received bytes; during the handshake it inspects whole frames first.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.held) == 0 && !w.settled.Load() {
		if err := w.readFrame(); err != nil {
			return 0, err
		}
	}
	if len(w.held) > 0 {
		n := copy(p, w.held)
		w.held = w.held[n:]
		return n, nil
	}
	if len(p) >= ahead {
		return w.receive(p)
	}
	n, err := w.receive(w.buffer[:])
	w.held = w.buffer[:n]
	if n == 0 {
		return 0, err
	}
	n = copy(p, w.held) // the next call returns err again
	w.held = w.held[n:]
	return n, nil
}

// receive reads from the connection once.
func (w *wire) receive(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		w.server.answered()
	}
	if n > 0 {
		w.moved.Store(time.Now().UnixNano())
	}
	if end := w.end.Load(); err != nil && end != nil {
		(*end)(err)
	}
	return n, err
}

func (w *wire) readFrame() error {
	var head [frameHeader]byte
	if _, err := io.ReadFull(w.Conn, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxHandshake {
		return w.refuse(errForeign)
	}
	frame := make([]byte, frameHeader+size)
	copy(frame, head[:])
	if _, err := io.ReadFull(w.Conn, frame[frameHeader:]); err != nil {
		return err
	}
	w.moved.Store(time.Now().UnixNano())
	w.server.answered()
	if size < headerSize || !bytes.Equal(frame[frameHeader+1:frameHeader+4], []byte("SMB")) {
		return w.refuse(errForeign)
	}
	if err := w.inspect(frame[frameHeader:]); err != nil {
		return w.refuse(err)
	}
	w.held = frame
	return nil
}

// inspect checks one answer of the handshake.
func (w *wire) inspect(p []byte) error {
	if len(p) < headerSize+8 || p[0] != 0xfe {
		return nil // encrypted, or left to the library
	}
	status, body := binary.LittleEndian.Uint32(p[8:]), p[headerSize:]
	switch binary.LittleEndian.Uint16(p[12:]) {
	case cmdNegotiate:
		if status == 0 {
			w.link.agreed(p)
			// SMB 3.1.1 protects its negotiation, and an older one does not. After "any version" (2.FF, an answer to SMB 1,
			// which is never asked) the library would negotiate again, for SMB 2.1 alone.
			if got := w.link.dialect.Load(); got == dialectAny || got < w.server.dialect.Load() {
				return errLowered
			} else if had := w.server.known; got < had.dialect {
				return &olderError{got, had.dialect, had.path(had.dialect)}
			}
		}
		w.cipher = status == 0 && cipherOf(p) != 0
		if w.prefer && status == 0 && cipherOf(p) == aes128GCM {
			w.encrypt.Store(true)
		}
		if w.encrypt.Load() && !w.cipher {
			return fmt.Errorf("%w: the server offers no encryption; it needs SMB 3", ErrInsecure)
		}
	case cmdSetup:
		w.status.Store(status)
		if status != 0 {
			return nil
		}
		flags := binary.LittleEndian.Uint16(body[2:])
		w.link.guest.Store(flags&(flagGuest|flagNull) != 0)
		if flags&(flagGuest|flagNull) != 0 && !w.guest {
			return fmt.Errorf("%w: it does not know the user and would let anybody in as a guest", ErrLogon)
		}
		if w.encrypt.Load() {
			binary.LittleEndian.PutUint16(body[2:], flags|flagEncrypt)
		}
	}
	return nil
}

// refuse closes the connection; because returns the reason.
func (w *wire) refuse(err error) error {
	w.refusal.CompareAndSwap(nil, &err)
	_ = w.Conn.Close()
	return err
}

// because returns why this side closed the connection; nil: it did not.
func (w *wire) because() error {
	if err := w.refusal.Load(); err != nil {
		return *err
	}
	return nil
}
