package chunker

import "testing"
import "math/rand/v2"

func BenchmarkNext(b *testing.B) {
	data := make([]byte, 32<<20)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(data)
	c, _ := New([32]byte{1}, DefaultParams())
	b.SetBytes(int64(len(data)))
	n := 0
	for b.Loop() {
		n = 0
		for p := data; len(p) > 0; n++ {
			p = p[c.Next(p, true):]
		}
	}
	b.ReportMetric(float64(len(data)/n), "B/chunk")
}
