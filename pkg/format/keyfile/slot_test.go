package keyfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"
	"golang.org/x/crypto/argon2"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

// cheap makes argon2id take no time.
var cheap = Params{Time: 1, MemoryKiB: 8, Threads: 1}

// cases is one secret of each method.
var cases = []struct {
	method Method
	secret []byte
	params Params
}{
	{Passphrase, []byte("correct horse battery staple"), cheap},
	{KeyFile, bytes.Repeat([]byte{0x5a}, secretFileSize), Params{}},
	{Recovery, bytes.Repeat([]byte{0xa5}, recoverySize), Params{}},
}

func testMaster() (m seal.MasterKey) {
	for i := range m {
		m[i] = byte(i)
	}
	return m
}

func goldenSlot(t testing.TB, i int) *Slot {
	t.Helper()
	c := cases[i]
	s, err := wrap(testMaster(), c.method, c.secret, c.params, "ada@engine", 1_790_000_000, [SaltSize]byte{1, 2, 3})
	require.NoError(t, err)
	return s
}

func TestSpec(t *testing.T) {
	require.Equal(t, map[string]uint64{
		"time": tagTime, "memory": tagMemory, "threads": tagThreads, "salt": tagSalt, "label": tagLabel,
		"epoch": tagEpoch, "created": tagCreated, "commitment": tagCommitment, "wrapped": tagWrapped,
	}, spectest.Numbers(t, "SPEC.md", "Fields", "Field", "Tag"))
	require.Equal(t, map[string]uint64{
		"MaxSize": MaxSize, "MaxLabel": MaxLabel, "MaxTime": MaxTime, "MaxMemoryKiB": MaxMemoryKiB,
		"MaxWorkKiB": MaxWorkKiB, "MinMemoryPerThread": MinMemoryPerThread, "MaxSecretFile": MaxSecretFile,
	}, spectest.Numbers(t, "SPEC.md", "Limits", "Name", "Value"))
	methods := map[string]uint64{}
	for _, m := range []Method{Passphrase, KeyFile, Recovery} {
		methods[m.String()] = uint64(m)
	}
	require.Equal(t, methods, spectest.Numbers(t, "SPEC.md", "Methods", "Name", "Method"))
	require.Equal(t, map[string]string{
		"passphrase": "any", "key file": fmt.Sprint(secretFileSize), "recovery key": fmt.Sprint(recoverySize),
	}, spectest.Texts(t, "SPEC.md", "Methods", "Name", "Bytes"))
	require.Equal(t, map[string]string{"kek": contextKEK, "commitment": contextCommitment},
		spectest.Texts(t, "SPEC.md", "Derivation", "Step", "Context"))
	require.Equal(t, map[string]string{"key file": contextFileCheck, "recovery key": contextRecoveryCheck},
		spectest.Texts(t, "SPEC.md", "Checksum contexts", "Of", "Context"))
	d := DefaultParams()
	require.Equal(t, map[string]uint64{
		"time": uint64(d.Time), "memory": uint64(d.MemoryKiB), "threads": uint64(d.Threads),
	}, spectest.Numbers(t, "SPEC.md", "Defaults", "Name", "Value"))
	require.NoError(t, d.check(Passphrase))
	require.Equal(t, map[string]string{
		"alphabet": crockford, "secret": fmt.Sprint(recoverySymbols), "check": fmt.Sprint(checkSymbols),
		"group": fmt.Sprint(groupSize),
	}, spectest.Texts(t, "SPEC.md", "Recovery key", "Name", "Value"))
	layout := spectest.Texts(t, "SPEC.md", "Layout", "Field", "Offset")
	require.Equal(t, map[string]string{
		"magic": "0", "version": fmt.Sprint(len(magic)), "method": "9", "flags": "10", "fields": fmt.Sprint(headerSize),
		"checksum": "12 + n",
	}, layout)
	require.Equal(t, magic, spectest.Table(t, "SPEC.md", "Layout")[0]["Value"])
	require.Equal(t, secretFileTitle+" "+secretFileVersion, spectest.Table(t, "SPEC.md", "Key file")[0]["Content"])
}

// TestGolden pins the bytes of a slot of each method, and opens what is pinned.
func TestGolden(t *testing.T) {
	for i, c := range cases {
		name := "slot-" + strings.ReplaceAll(c.method.String(), " ", "-")
		stored := spectest.Golden(t, name, Encode(goldenSlot(t, i)))
		s, err := Decode(stored)
		require.NoError(t, err)
		require.Equal(t, goldenSlot(t, i), s)
		require.Equal(t, c.method, s.Method)
		require.Equal(t, c.params, s.Params)
		require.Equal(t, "ada@engine", s.Label)
		require.EqualValues(t, 1_790_000_000, s.Created)
		m, err := s.Unwrap(c.secret)
		require.NoError(t, err)
		require.True(t, testMaster() == m)
	}
}

// TestUnwrapFollowsSpec opens a slot with nothing but what the specification says.
func TestUnwrapFollowsSpec(t *testing.T) {
	contexts := spectest.Texts(t, "SPEC.md", "Derivation", "Step", "Context")
	for i, c := range cases {
		stored := Encode(goldenSlot(t, i))
		values := map[uint64][]byte{}
		var aad []byte
		aad = append(aad, stored[:12]...)
		require.NoError(t, wire.ReadFields(stored[12:len(stored)-32], func(f *wire.Fields) {
			for tag := range uint64(14) {
				if values[tag] = f.Bytes(tag, nil); tag <= 10 && values[tag] != nil {
					aad = wire.AppendBytes(wire.AppendUvarint(aad, tag), values[tag])
				}
			}
		}))
		stretched := c.secret
		if stored[9] == 1 {
			stretched = argon2.IDKey(c.secret, values[7], 1, 8, 1, 32)
		}
		material := bytes.Join([][]byte{stored[9:10], values[7], stretched}, nil)
		var kek, commitment [32]byte
		blake3.DeriveKey(contexts["kek"], material, kek[:])
		blake3.DeriveKey(contexts["commitment"], material, commitment[:])
		require.Equal(t, commitment[:], values[11])
		aead := seal.AEAD(kek)
		plain, err := aead.Open(nil, make([]byte, 12), values[13], aad)
		require.NoError(t, err)
		m := testMaster()
		require.Equal(t, m[:], plain)
	}
}

func TestWrapUnwrap(t *testing.T) {
	m := seal.NewMasterKey()
	for _, c := range cases {
		a, err := Wrap(m, c.method, c.secret, cheap, "me@here", -5)
		require.NoError(t, err)
		b, err := Wrap(m, c.method, c.secret, cheap, "me@here", -5)
		require.NoError(t, err)
		require.NotEqual(t, a.Salt, b.Salt)
		require.NotEqual(t, a.wrapped, b.wrapped)
		require.NotEqual(t, a.commitment, b.commitment)
		for _, s := range []*Slot{a, b} {
			s, err := Decode(Encode(s))
			require.NoError(t, err)
			got, err := s.Unwrap(c.secret)
			require.NoError(t, err)
			require.True(t, m == got)
		}
	}
}

func TestDefaultParamsWork(t *testing.T) {
	s, err := Wrap(testMaster(), Passphrase, []byte("x"), DefaultParams(), "", 0)
	require.NoError(t, err)
	m, err := s.Unwrap([]byte("x"))
	require.NoError(t, err)
	require.True(t, testMaster() == m)
}

func TestWrongKey(t *testing.T) {
	for i, c := range cases {
		s := goldenSlot(t, i)
		flipped := bytes.Clone(c.secret)
		flipped[0] ^= 1
		for _, secret := range [][]byte{nil, {}, flipped, c.secret[1:], append(bytes.Clone(c.secret), 0)} {
			m, err := s.Unwrap(secret)
			require.ErrorIs(t, err, ErrWrongKey)
			require.NotErrorIs(t, err, format.ErrCorrupt)
			require.True(t, m == seal.MasterKey{})
		}
	}
}

// TestMethodsDoNotMix: a secret of one method does not open a slot that claims another.
func TestMethodsDoNotMix(t *testing.T) {
	s := goldenSlot(t, 1)
	s.Method, s.Params = Passphrase, cheap
	_, err := s.Unwrap(cases[1].secret)
	require.ErrorIs(t, err, ErrWrongKey)
}

// TestEveryBitFlipIsDetected without any secret, by the checksum.
func TestEveryBitFlipIsDetected(t *testing.T) {
	for i := range cases {
		stored := Encode(goldenSlot(t, i))
		spectest.FlipBits(stored, func(i int, mutated []byte) {
			_, err := Decode(mutated)
			want := format.ErrCorrupt
			if i == len(magic) && mutated[i] != 0 {
				want = format.ErrUnsupported // a version to come
			}
			require.ErrorIs(t, err, want, "byte %d", i)
		})
		for n := range len(stored) {
			_, err := Decode(stored[:n])
			require.ErrorIs(t, err, format.ErrCorrupt, "%d bytes", n)
		}
	}
}

// TestForgedSlot: an attacker without the secret changes a slot and makes the checksum fit. The commitment and the
// wrapping detect every change.
func TestForgedSlot(t *testing.T) {
	for i, c := range cases {
		for name, forgery := range map[string]struct {
			change func(*Slot)
			want   error
		}{
			"label":      {func(s *Slot) { s.Label = "eve@engine" }, format.ErrCorrupt},
			"created":    {func(s *Slot) { s.Created++ }, format.ErrCorrupt},
			"salt":       {func(s *Slot) { s.Salt[31] ^= 1 }, ErrWrongKey},
			"commitment": {func(s *Slot) { s.commitment[0] ^= 1 }, ErrWrongKey},
			"wrapped":    {func(s *Slot) { s.wrapped[0] ^= 1 }, format.ErrCorrupt},
			"tag":        {func(s *Slot) { s.wrapped[wrappedSize-1] ^= 1 }, format.ErrCorrupt},
		} {
			t.Run(fmt.Sprint(c.method, " ", name), func(t *testing.T) {
				s := goldenSlot(t, i)
				forgery.change(s)
				s, err := Decode(Encode(s))
				require.NoError(t, err)
				m, err := s.Unwrap(c.secret)
				require.ErrorIs(t, err, forgery.want)
				require.True(t, m == seal.MasterKey{})
			})
		}
	}
}

func TestParamsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		params Params
		ok     bool
	}{
		"default":           {DefaultParams(), true},
		"first of RFC 9106": {Params{1, 2 << 20, 4}, true},
		"cheapest":          {Params{1, 8, 1}, true},
		"most memory":       {Params{16, MaxMemoryKiB, 255}, true},
		"most passes":       {Params{MaxTime, MaxWorkKiB / MaxTime, 4}, true},
		"zero":              {Params{}, false},
		"no passes":         {Params{0, 64, 1}, false},
		"no threads":        {Params{1, 64, 0}, false},
		"too little memory": {Params{1, 8*4 - 1, 4}, false},
		"too much memory":   {Params{1, MaxMemoryKiB + 1, 4}, false},
		"too many passes":   {Params{MaxTime + 1, 64, 1}, false},
		"too much work":     {Params{17, MaxMemoryKiB, 4}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := goldenSlot(t, 0)
			s.Params = c.params
			decoded, err := Decode(Encode(s))
			if c.ok {
				require.NoError(t, err)
				require.Equal(t, c.params, decoded.Params)
				return
			}
			require.ErrorIs(t, err, format.ErrCorrupt)
			_, err = Wrap(testMaster(), Passphrase, []byte("x"), c.params, "", 0)
			require.Error(t, err)
			_, err = s.Unwrap(cases[0].secret)
			require.Error(t, err, "argon2 must not see them")
		})
	}
	s := goldenSlot(t, 1)
	s.Params = cheap
	_, err := Decode(Encode(s))
	require.ErrorIs(t, err, format.ErrCorrupt, "a key file takes no parameters")
}

func TestWrapRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		method Method
		secret []byte
		label  string
	}{
		"empty passphrase":   {Passphrase, nil, ""},
		"short key file":     {KeyFile, make([]byte, 31), ""},
		"long key file":      {KeyFile, make([]byte, 33), ""},
		"short recovery key": {Recovery, make([]byte, 19), ""},
		"no method":          {0, make([]byte, 32), ""},
		"unknown method":     {4, make([]byte, 32), ""},
		"long label":         {Passphrase, []byte("x"), strings.Repeat("x", MaxLabel+1)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Wrap(testMaster(), c.method, c.secret, cheap, c.label, 0)
			require.Error(t, err)
		})
	}
}

// craft builds a slot with a checksum that fits from parts Encode would not write.
func craft(version, method byte, flags uint16, fields func(*wire.Fields)) []byte {
	f := wire.NewFields(wire.AppendUint16(append([]byte(magic), version, method), flags))
	fields(f)
	p := f.Finish()
	sum := seal.FileID(p)
	return append(p, sum[:]...)
}

// A slot of the reserved method is refused by name. Other slots of the repository still serve.
func TestWriteOnlySlotsNeedANewerProgram(t *testing.T) {
	_, err := Decode(craft(1, byte(PublicKey), 0, func(*wire.Fields) {}))
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.EqualError(t, err, "read key slot: write-only key: written by a newer version of tidemark; update "+
		"this program")
	text, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	require.Contains(t, string(text), fmt.Sprintf("Method %d, `%s`, is reserved", PublicKey, PublicKey))
}

// A slot of another key epoch is refused, and the epoch cannot be changed without the secret.
func TestSlotOfAnotherEpoch(t *testing.T) {
	s := goldenSlot(t, 1)
	s.Epoch = 1
	_, err := Decode(spectest.Golden(t, "slot-epoch-1", Encode(s)))
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "key epoch 1")
	_, err = s.Unwrap(cases[1].secret)
	require.ErrorIs(t, err, format.ErrCorrupt)
}

func TestDecodeRefuses(t *testing.T) {
	ok := func(f *wire.Fields) {
		f.Bytes(tagSalt, make([]byte, SaltSize))
		f.Bytes(tagCommitment, make([]byte, commitmentSize))
		f.Bytes(tagWrapped, make([]byte, wrappedSize))
	}
	for name, c := range map[string]struct {
		input []byte
		want  error
	}{
		"even field of the future": {craft(1, 2, 0, func(f *wire.Fields) { ok(f); f.Uint(14, 1) }), nil},
		"odd field of the future":  {craft(1, 2, 0, func(f *wire.Fields) { ok(f); f.Uint(15, 1) }), format.ErrUnsupported},
		"version 0":                {craft(0, 2, 0, ok), format.ErrCorrupt},
		"version 2":                {craft(2, 2, 0, ok), format.ErrUnsupported},
		"method 0":                 {craft(1, 0, 0, ok), format.ErrUnsupported},
		"method 4":                 {craft(1, 4, 0, ok), format.ErrUnsupported},
		"method 5":                 {craft(1, 5, 0, ok), format.ErrUnsupported},
		"a flag":                   {craft(1, 2, 1<<15, ok), format.ErrUnsupported},
		"no fields":                {craft(1, 2, 0, func(*wire.Fields) {}), format.ErrCorrupt},
		"no salt": {craft(1, 2, 0, func(f *wire.Fields) {
			f.Bytes(tagCommitment, make([]byte, commitmentSize))
			f.Bytes(tagWrapped, make([]byte, wrappedSize))
		}), format.ErrCorrupt},
		"no commitment": {craft(1, 2, 0, func(f *wire.Fields) {
			f.Bytes(tagSalt, make([]byte, SaltSize))
			f.Bytes(tagWrapped, make([]byte, wrappedSize))
		}), format.ErrCorrupt},
		"short wrapping": {craft(1, 2, 0, func(f *wire.Fields) {
			f.Bytes(tagSalt, make([]byte, SaltSize))
			f.Bytes(tagCommitment, make([]byte, commitmentSize))
			f.Bytes(tagWrapped, make([]byte, wrappedSize-1))
		}), format.ErrCorrupt},
		"long label": {craft(1, 2, 0, func(f *wire.Fields) {
			f.Bytes(tagSalt, make([]byte, SaltSize))
			f.String(tagLabel, strings.Repeat("x", MaxLabel+1))
			f.Bytes(tagCommitment, make([]byte, commitmentSize))
			f.Bytes(tagWrapped, make([]byte, wrappedSize))
		}), format.ErrCorrupt},
		"too long": {craft(1, 2, 0, func(f *wire.Fields) { ok(f); f.Bytes(14, make([]byte, MaxSize)) }), format.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(c.input)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.want)
		})
	}
}

// FuzzDecode hands the decoder fuzzed bytes with a checksum that fits, or hardly anything would get past it.
func FuzzDecode(f *testing.F) {
	for i := range cases {
		stored := Encode(goldenSlot(f, i))
		f.Add(stored[:len(stored)-checksumSize], true)
		f.Add(stored, false)
	}
	f.Fuzz(func(t *testing.T, p []byte, fix bool) {
		if fix {
			sum := seal.FileID(p)
			p = append(bytes.Clone(p), sum[:]...)
		}
		s, err := Decode(p)
		if err != nil {
			require.True(t, errors.Is(err, format.ErrCorrupt) != errors.Is(err, format.ErrUnsupported), "%v", err)
			return
		}
		require.NoError(t, s.Params.check(s.Method))
		again, err := Decode(Encode(s))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
