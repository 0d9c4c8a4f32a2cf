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

// Verdict is what the proxy does with a frame.
type Verdict uint8

// The verdicts.
const (
	Pass     Verdict = iota
	Drop             // it never arrives, and the connection stays
	Cut              // it does not arrive, and the connection breaks
	Half             // half of it arrives, and the connection breaks
	PassLast         // it arrives, and the connection breaks
)

// Frame is one message on its way. Data may be changed or replaced.
type Frame struct {
	Connection int  // number of the connection, from 0
	ToServer   bool // a request
	Data       []byte
}

// Clear reports whether the frame is neither encrypted nor damaged.
func (f *Frame) Clear() bool { return len(f.Data) >= headerSize && f.Data[0] == 0xfe }

// Command is the number of the command.
func (f *Frame) Command() uint16 { return binary.LittleEndian.Uint16(f.Data[12:]) }

// Message is the number by which a request and its answer belong together.
func (f *Frame) Message() uint64 { return binary.LittleEndian.Uint64(f.Data[24:]) }

// Is reports whether the frame is a request or an answer of a command.
func (f *Frame) Is(command uint16, toServer bool) bool {
	return f.Clear() && f.ToServer == toServer && f.Command() == command
}

// IsRename reports whether the frame asks for a file to be renamed.
func (f *Frame) IsRename() bool {
	return f.Is(SetInfo, true) && len(f.Data) > headerSize+4 && f.Data[headerSize+3] == renameInformation
}

// Pending reports whether an answer says only that the real one takes a while ([MS-ERREF] 2.3.1, STATUS_PENDING).
func (f *Frame) Pending() bool { return binary.LittleEndian.Uint32(f.Data[8:]) == 0x0103 }

// Offset is where in its file a request to write begins.
func (f *Frame) Offset() uint64 { return binary.LittleEndian.Uint64(f.Data[headerSize+8:]) }

// HalveWrite makes a request to write ask for the first half of its bytes only.
func (f *Frame) HalveWrite() (asked uint32) {
	length := f.Data[headerSize+4:]
	asked = binary.LittleEndian.Uint32(length)
	binary.LittleEndian.PutUint32(length, asked/2)
	f.Data = f.Data[:len(f.Data)-int(asked-asked/2)]
	return asked
}

// Refuse turns an answer into the refusal of a server, with a status code from [MS-ERREF] 2.3.1.
func (f *Frame) Refuse(status uint32) {
	f.Data = append(f.Data[:headerSize:headerSize], 9, 0, 0, 0, 0, 0, 0, 0, 0) // [MS-SMB2] 2.2.2
	binary.LittleEndian.PutUint32(f.Data[8:], status)
}

// HalveRead makes an answer to a read bring the first half of its bytes only, as a server may.
func (f *Frame) HalveRead() {
	length := f.Data[headerSize+4:]
	n := binary.LittleEndian.Uint32(length) / 2
	if start := int(f.Data[headerSize+2]); n > 0 && start+int(n) <= len(f.Data) {
		binary.LittleEndian.PutUint32(length, n)
		f.Data = f.Data[:start+int(n)]
	}
}

// EmptyRead makes an answer to a read bring nothing, without saying that the file ends there.
func (f *Frame) EmptyRead() {
	if start := int(f.Data[headerSize+2]); start > 0 && start < len(f.Data) {
		binary.LittleEndian.PutUint32(f.Data[headerSize+4:], 0)
		f.Data = f.Data[:start+1]
	}
}

// SetWritten makes an answer to a write claim that so many bytes were written.
func (f *Frame) SetWritten(n uint32) { binary.LittleEndian.PutUint32(f.Data[headerSize+4:], n) }

// Proxy stands between a client and a server. It understands frames, not what is encrypted in them.
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

// NewProxy starts a proxy to a server until the test is over. Every frame takes half of roundTrip each way, without a
// limit to how many are on the way.
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

// Filter has judge decide about every frame from now on. It is called from several goroutines, in order for each
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

// Accepted is how many connections there have been.
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

// parcel is a frame that arrives at a moment; last: the connection breaks after it.
type parcel struct {
	at   time.Time
	data []byte
	last bool
}

// carry moves the frames of one direction until either side is closed.
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

// wait sleeps until a moment: this is the delay that the proxy is for.
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
