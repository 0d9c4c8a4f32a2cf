package smbtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Numbers of commands and of classes of information, from [MS-SMB2] 2.2.1 and [MS-FSCC] 2.4.
const (
	SessionSetup = 0x01
	Create       = 0x05
	Flush        = 0x07
	Read         = 0x08
	Write        = 0x09
	Echo         = 0x0d
	SetInfo      = 0x11

	renameInformation = 10
	headerSize        = 64
)

// Verdict is the action of the proxy on a frame.
type Verdict uint8

// The actions.
const (
	Pass     Verdict = iota
	Drop             // does not arrive; the connection stays
	Cut              // does not arrive; the connection breaks
	Half             // half of it arrives; the connection breaks
	PassLast         // arrives; the connection breaks
)

// Frame is one message. A filter may change or replace Data.
type Frame struct {
	Connection int  // number of the connection, from 0
	ToServer   bool // a request
	Data       []byte
}

// Clear reports whether the frame is neither encrypted nor damaged.
func (f *Frame) Clear() bool { return len(f.Data) >= headerSize && f.Data[0] == 0xfe }

// Command returns the number of the command.
func (f *Frame) Command() uint16 { return binary.LittleEndian.Uint16(f.Data[12:]) }

// Message returns the number that a request and its answer share.
func (f *Frame) Message() uint64 { return binary.LittleEndian.Uint64(f.Data[24:]) }

// Is reports whether the frame is a request or an answer of a command.
func (f *Frame) Is(command uint16, toServer bool) bool {
	return f.Clear() && f.ToServer == toServer && f.Command() == command
}

// IsRename reports whether the frame requests a rename.
func (f *Frame) IsRename() bool {
	return f.Is(SetInfo, true) && len(f.Data) > headerSize+4 && f.Data[headerSize+3] == renameInformation
}

// Pending reports whether an answer is interim ([MS-ERREF] 2.3.1, STATUS_PENDING).
func (f *Frame) Pending() bool { return binary.LittleEndian.Uint32(f.Data[8:]) == 0x0103 }

// Offset returns the file offset of a write request.
func (f *Frame) Offset() uint64 { return binary.LittleEndian.Uint64(f.Data[headerSize+8:]) }

// HalveWrite shortens a write request to the first half of its bytes.
func (f *Frame) HalveWrite() (asked uint32) {
	length := f.Data[headerSize+4:]
	asked = binary.LittleEndian.Uint32(length)
	binary.LittleEndian.PutUint32(length, asked/2)
	f.Data = f.Data[:len(f.Data)-int(asked-asked/2)]
	return asked
}

// Refuse turns an answer into an error with a status code from [MS-ERREF] 2.3.1.
func (f *Frame) Refuse(status uint32) {
	f.Data = append(f.Data[:headerSize:headerSize], 9, 0, 0, 0, 0, 0, 0, 0, 0) // [MS-SMB2] 2.2.2
	binary.LittleEndian.PutUint32(f.Data[8:], status)
}

// HalveRead shortens the answer to a read to its first half, as a server may.
func (f *Frame) HalveRead() {
	length := f.Data[headerSize+4:]
	n := binary.LittleEndian.Uint32(length) / 2
	if start := int(f.Data[headerSize+2]); n > 0 && start+int(n) <= len(f.Data) {
		binary.LittleEndian.PutUint32(length, n)
		f.Data = f.Data[:start+int(n)]
	}
}

// EmptyRead empties the answer to a read, without an end of file.
func (f *Frame) EmptyRead() {
	if start := int(f.Data[headerSize+2]); start > 0 && start < len(f.Data) {
		binary.LittleEndian.PutUint32(f.Data[headerSize+4:], 0)
		f.Data = f.Data[:start+1]
	}
}

// SetWritten sets the number of bytes that the answer to a write confirms.
func (f *Frame) SetWritten(n uint32) { binary.LittleEndian.PutUint32(f.Data[headerSize+4:], n) }

// Proxy forwards frames between a client and a server. It does not decrypt them.
type Proxy struct {
	Port int

	to       string
	oneWay   time.Duration
	filter   atomic.Pointer[func(*Frame) Verdict]
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
}

// NewProxy starts a proxy to a server until the test ends. Every frame takes half of roundTrip each way; any number may
// be in flight.
func NewProxy(t testing.TB, to string, roundTrip time.Duration) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{
		Port: l.Addr().(*net.TCPAddr).Port, to: to, oneWay: roundTrip / 2, listener: l, conns: map[net.Conn]bool{},
	}
	p.Filter(func(*Frame) Verdict { return Pass })
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.CutAll()
		p.wg.Wait()
	})
	return p
}

// Filter sets the function that decides about every frame. It is called from several goroutines, in order for each
// connection and direction.
func (p *Proxy) Filter(judge func(*Frame) Verdict) { p.filter.Store(&judge) }

// CutAll breaks all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Accepted returns the number of connections so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		number := p.accepted
		p.accepted++
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		var both sync.WaitGroup
		both.Go(func() { p.carry(client, server, number, true) })
		both.Go(func() { p.carry(server, client, number, false) })
		p.wg.Go(func() {
			both.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.conns, client)
			delete(p.conns, server)
		})
	}
}

// parcel is a frame with its time of arrival; last: the connection breaks after it.
type parcel struct {
	at   time.Time
	data []byte
	last bool
}

// carry forwards the frames of one direction until either side is closed.
func (p *Proxy) carry(from, to net.Conn, number int, toServer bool) {
	way := make(chan parcel, 4096)
	var sender sync.WaitGroup
	sender.Go(func() {
		broken := false
		for one := range way {
			if broken {
				continue
			}
			wait(one.at)
			_, err := to.Write(one.data)
			if broken = err != nil || one.last; broken {
				_ = from.Close()
				_ = to.Close()
			}
		}
		_ = from.Close()
		_ = to.Close()
	})
	for {
		data, err := readFrame(from)
		if err != nil {
			break
		}
		f := &Frame{Connection: number, ToServer: toServer, Data: data}
		verdict := (*p.filter.Load())(f)
		one := parcel{at: time.Now().Add(p.oneWay), data: header(f.Data)}
		switch verdict {
		case Drop:
			continue
		case Cut:
			one.data, one.last = nil, true
		case Half:
			one.data, one.last = one.data[:len(one.data)/2], true
		case PassLast:
			one.last = true
		case Pass:
		}
		way <- one
	}
	close(way)
	sender.Wait()
}

// wait sleeps until t, which makes the delay of the proxy.
func wait(until time.Time) {
	if d := time.Until(until); d > 0 {
		time.Sleep(d)
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > 1<<24 {
		return nil, errors.New("not a frame")
	}
	data := make([]byte, size)
	_, err := io.ReadFull(r, data)
	return data, err
}

func header(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data))), data...)
}
