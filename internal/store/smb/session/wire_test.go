package session

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// arriving is a connection on which frames arrive, each by itself.
type arriving struct {
	net.Conn
	frames [][]byte
	reads  int
}

func (a *arriving) Read(p []byte) (int, error) {
	a.reads++
	if len(a.frames) == 0 {
		return 0, io.EOF
	}
	n := copy(p, a.frames[0])
	if a.frames[0] = a.frames[0][n:]; len(a.frames[0]) == 0 {
		a.frames = a.frames[1:]
	}
	return n, nil
}

// TestAnswersAreReadInOneCall: frames of all lengths arrive unchanged. A short one takes one system call, and all but
// the beginning of a long one goes directly into the buffer of the library.
func TestAnswersAreReadInOneCall(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var a arriving
	var sent [][]byte
	for i := range 200 {
		size := 64 + rng.IntN(500)
		if i%10 == 0 {
			size = ahead - frameHeader + rng.IntN(1<<20)
		}
		frame := make([]byte, frameHeader+size)
		for j := range frame {
			frame[j] = byte(rng.Uint32())
		}
		binary.BigEndian.PutUint32(frame, uint32(size))
		sent = append(sent, frame)
	}
	a.frames = append(a.frames, sent...)
	w := newWire(&a, AsOffered, false)
	w.settled.Store(true)
	for _, want := range sent {
		before := a.reads
		got := make([]byte, len(want))
		_, err := io.ReadFull(w, got[:frameHeader]) // as the library does it
		require.NoError(t, err)
		_, err = io.ReadFull(w, got[frameHeader:])
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got))
		if len(want) <= ahead {
			require.Equal(t, 1, a.reads-before)
		} else {
			require.LessOrEqual(t, a.reads-before, 3)
		}
	}
	_, err := w.Read(make([]byte, frameHeader))
	require.ErrorIs(t, err, io.EOF)
}
