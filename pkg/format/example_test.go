package format_test

import (
	"fmt"
	"log"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// A blob is stored in a pack and read back. TestRestoreWithPkgAlone in restore_test.go restores a whole repository.
func Example() {
	master := seal.NewMasterKey()
	keys := seal.Derive(master)

	data := []byte("the content of a file")
	builder := pack.NewBuilder(keys, pack.Data, nil)
	check(builder.Append(&pack.Payload{
		Codec: pack.Stored, Raw: uint32(len(data)), Data: data,
		Blobs: []pack.Blob{{ID: keys.Hasher().ID(data), Len: uint32(len(data))}},
	}))
	stored, table, err := builder.Finish()
	check(err)

	frame := table.Frames[0]
	opener := pack.NewOpener(keys, table.Kind, table.Salt)
	decompressor := pack.NewDecompressor()
	raw, lengths, err := decompressor.OpenFrame(opener, frame.Offset, stored[frame.Offset:][:frame.Sealed], nil)
	check(err)
	fmt.Println(lengths, string(raw))
	// Output: [21] the content of a file
}

// The master key is wrapped under a passphrase.
func Example_keySlot() {
	master := seal.NewMasterKey()
	cheap := keyfile.Params{Time: 1, MemoryKiB: 64, Threads: 1} // use keyfile.DefaultParams
	slot, err := keyfile.Wrap(master, keyfile.Passphrase, []byte("correct horse"), cheap, "user@host", 0)
	check(err)
	stored := keyfile.Encode(slot)

	slot, err = keyfile.Decode(stored)
	check(err)
	_, err = slot.Unwrap([]byte("wrong"))
	fmt.Println("wrong passphrase:", err != nil)
	opened, err := slot.Unwrap([]byte("correct horse"))
	check(err)
	fmt.Println("right passphrase:", opened == master)
	// Output:
	// wrong passphrase: true
	// right passphrase: true
}

// An ID is written as hexadecimal digits.
func ExampleParseID() {
	id, err := format.ParseID("d74981efa70a0c880b8d8c1985d075dbcbf679b99a5f9914e5aaf96b831a9e24")
	check(err)
	fmt.Println(id.Short(), id.IsZero())
	// Output: d74981ef false
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
