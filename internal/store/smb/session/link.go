package session

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// How a request was sent.
const (
	sentClear = iota + 1
	sentSigned
	sentEncrypted
)

const (
	flagSigned     = 8 // of a header
	aes128CCM      = 1
	aes128GCM      = 2
	flagsOffset    = 16
	encryptedMagic = 0xfd
)

// link collects from the frames how a session is protected.
type link struct {
	dialect, cipher, sent atomic.Uint32
	guest                 atomic.Bool
}

// leaves records how a request is sent.
func (l *link) leaves(p []byte) {
	switch {
	case len(p) > 0 && p[0] == encryptedMagic:
		l.sent.Store(sentEncrypted)
	case len(p) >= headerSize && p[flagsOffset]&flagSigned != 0:
		l.sent.Store(sentSigned)
	default:
		l.sent.Store(sentClear)
	}
}

// agreed reads the answer to a negotiation.
func (l *link) agreed(p []byte) {
	body := p[headerSize:]
	l.dialect.Store(uint32(binary.LittleEndian.Uint16(body[4:])))
	l.cipher.Store(uint32(cipherOf(p)))
}

// Describe says in one sentence how requests to host are protected, as of the last one, and what to do about a
// weakness.
func (s *Session) Describe(host string) (what, remedy string) {
	l := &s.wire.link
	what = "SMB " + dialectName(l.dialect.Load()) + " with " + host
	switch sent := l.sent.Load(); {
	case l.guest.Load():
		return what + ", as a guest.",
			"anyone who reaches the server can remove the repository: create a user with a password for backups"
	case sent == sentEncrypted:
		cipher := map[uint32]string{
			aes128CCM: "AES-128-CCM", aes128GCM: "AES-128-GCM", 3: "AES-256-CCM", 4: "AES-256-GCM",
		}[l.cipher.Load()]
		return fmt.Sprintf("%s, encrypted (%s).", what, cmp.Or(cipher, fmt.Sprintf("cipher %d", l.cipher.Load()))), ""
	case sent == sentSigned:
		return what + ", each request signed.", ""
	}
	return what + ", neither signed nor encrypted.", "others on the network could change what is sent. Each file is " +
		"therefore read back in full, which costs time; --smb-sign required prevents both"
}

// dialects are the versions of SMB, newest first.
func dialects() []uint32 { return []uint32{dialect311, dialect302, dialect300, dialect210, dialect202} }

// dialectName returns the name of a version, such as "3.1.1".
func dialectName(d uint32) string {
	switch d {
	case dialect202:
		return "2.0.2"
	case dialect210:
		return "2.1"
	case dialect300:
		return "3.0"
	case dialect302:
		return "3.0.2"
	case dialect311:
		return "3.1.1"
	}
	return fmt.Sprintf("of dialect %#04x", d)
}

// cipherOf returns the cipher in the answer to a negotiation; 0: none.
func cipherOf(p []byte) uint16 {
	body := p[headerSize:]
	if len(body) < 64 {
		return 0
	}
	switch binary.LittleEndian.Uint16(body[4:]) {
	case dialect300, dialect302:
		if binary.LittleEndian.Uint32(body[24:])&capEncrypt != 0 {
			return aes128CCM
		}
		return 0
	case dialect311:
	default:
		return 0
	}
	count, at := int(binary.LittleEndian.Uint16(body[6:])), int(binary.LittleEndian.Uint32(body[60:]))
	for ; count > 0 && at >= headerSize && at+8 <= len(p); count-- {
		size := int(binary.LittleEndian.Uint16(p[at+2:]))
		if binary.LittleEndian.Uint16(p[at:]) == ctxEncrypt && size >= 4 && at+12 <= len(p) {
			return binary.LittleEndian.Uint16(p[at+10:])
		}
		at = (at + 8 + size + 7) &^ 7
	}
	return 0
}
