package testkit

import (
	"encoding/binary"
	"math/rand/v2"
)

// Noise returns n bytes that do not compress; the same for the same seed on every machine.
func Noise(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p) // never fails
	return p
}

// Text returns n bytes of lines of words that compress to about a third, without long repetitions; the same for the
// same seed on every machine.
func Text(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0x7465_7874))
	words := make([][]byte, 1000)
	for i := range words {
		words[i] = make([]byte, 2+r.IntN(9))
		for k := range words[i] {
			words[i][k] = byte('a' + r.IntN(26))
		}
	}
	p := make([]byte, 0, n+16)
	for len(p) < n {
		p = append(p, words[r.IntN(1+r.IntN(len(words)))]...)
		p = append(p, "         \n"[r.IntN(10)])
	}
	return p[:n]
}
