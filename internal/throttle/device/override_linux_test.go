package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOverride(t *testing.T) {
	k := newKernel(t)
	k.disk("254:0", vda, "1")
	k.write("devices/"+vda+"/diskseq", "9\n")
	found := k.numbered(number(254, 0)).complete("ext4")
	require.True(t, found.Weak)
	require.Equal(t, found, Override(found, Unknown))
	for word, want := range map[string]Medium{"ssd": SSD, "hdd": HDD, "remote": Remote} {
		said := Override(found, want)
		require.Equal(t, want, said.Medium)
		require.Equal(t, "vda@9", said.Key, "it is still that disk")
		require.Equal(t, found.Leaves, said.Leaves)
		require.Equal(t, "The user says that it is "+word+". "+found.Why, said.Why)
		m, decided, _ := NewClassifier(said).Medium()
		require.True(t, decided, "whatever is measured")
		require.Equal(t, want, m)
	}
	memory := Override(found, Memory)
	require.Empty(t, memory.Key)
	require.Equal(t, "vda@9", Override(memory, SSD).Key)
}

func TestMemoryThatIsSaidToBeADisk(t *testing.T) {
	k := newKernel(t)
	k.disk("1:0", "virtual/block/ram0", "0")
	k.write("devices/virtual/block/ram0/diskseq", "4\n")
	ram := k.numbered(number(1, 0)).complete("ext4")
	require.Equal(t, Memory, ram.Medium)
	require.Empty(t, ram.Key)
	require.Equal(t, "ram0@4", Override(ram, HDD).Key)
}
