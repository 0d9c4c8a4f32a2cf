package chunker_test

import (
	"bytes"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/tidemark-backup/tidemark/pkg/chunker"
)

// An insertion changes the chunk that it touches. All other chunks stay the same.
func Example() {
	c, err := chunker.New([32]byte{1, 2, 3}, chunker.DefaultParams())
	if err != nil {
		log.Fatal(err)
	}
	cut := func(data []byte) (chunks [][]byte) {
		for len(data) > 0 {
			n := c.Next(data, true)
			chunks = append(chunks, data[:n])
			data = data[n:]
		}
		return chunks
	}
	data := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	before := cut(data)
	after := cut(append([]byte("inserted"), data...))

	same := 0
	for i := range before {
		if bytes.Equal(before[i], after[i]) {
			same++
		}
	}
	fmt.Printf("%d of %d chunks are the same\n", same, len(before))
	// Output: 14 of 15 chunks are the same
}

// A stream is cut in a buffer of Max bytes.
func ExampleChunker_Next() {
	c, err := chunker.New([32]byte{}, chunker.Params{Min: 64, Avg: 128, Max: 256})
	if err != nil {
		log.Fatal(err)
	}
	input := bytes.NewReader(bytes.Repeat([]byte{0}, 600))
	buf := make([]byte, 0, c.Max())
	for {
		n, _ := input.Read(buf[len(buf):cap(buf)]) // fill the buffer
		buf = buf[:len(buf)+n]
		if len(buf) == 0 {
			break
		}
		length := c.Next(buf, input.Len() == 0)
		fmt.Println(length)
		buf = append(buf[:0], buf[length:]...)
	}
	// Output:
	// 256
	// 256
	// 88
}
