package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A name with @copy turns the stanza round: the repository of COPYTO, and the other one as the source.
func TestTheNameOfASecondRepository(t *testing.T) {
	const own = "SERVERNAME home\nREPOSITORY /one\nPASSWORDFILE /p\nKEEPSNAPSHOTS \"last 9\"\n" +
		"COPYTO s3://host/bucket/two\n"
	named := func(content, name string, args ...string) machine {
		m := file(content)
		m.args = append([]string{"--server-name", name}, args...)
		return m
	}
	spec := named(own, "home@copy").spec(t)
	require.Equal(t, Repository{"s3://host/bucket/two", true}, spec.Repository())
	require.Equal(t, Repository{"/one", true}, spec.Source().Repository())
	require.Equal(t, "/p", spec.Keys().PasswordFile)
	require.Equal(t, "/p", spec.Source().Keys().PasswordFile)
	require.Equal(t, "last 9", spec.Job().Keep)
	require.Empty(t, spec.Job().CopyTo, "copies are not copied")
	require.Equal(t, "home", spec.Server())

	spec = named(own+"COPYPASSWORDFILE /q\nCOPYKEEPSNAPSHOTS \"last 1\"\n", "home@copy").spec(t)
	require.Equal(t, "/q", spec.Keys().PasswordFile)
	require.Equal(t, "/p", spec.Source().Keys().PasswordFile)
	require.Equal(t, "last 1", spec.Job().Keep)

	// Keys of the first repository, whatever they are, do not open one with a passphrase of its own.
	m := named("SERVERNAME home\nREPOSITORY /one\nKEYFILE /k\nCOPYTO /two\nCOPYPASSWORDFILE /q\n", "home@copy")
	m.env = map[string]string{"TIDEMARK_PASSWORD": "secret"}
	spec = m.spec(t)
	require.Equal(t, Keys{PasswordFile: "/q"}, spec.Keys())
	require.Equal(t, Keys{Password: "secret", KeyFile: "/k"}, spec.Source().Keys())

	require.Equal(t, "/one", named(own, "home").spec(t).Repository().Location, "without the suffix nothing changes")
	require.Equal(t, "/two", named("REPOSITORY /one\nCOPYTO /two\n", CopySuffix).spec(t).Repository().Location,
		"a file without stanzas")

	for text, m := range map[string]machine{
		"home@copy: home has no line COPYTO":        named("SERVERNAME home\nREPOSITORY /one\n", "home@copy"),
		"@copy: the option file has no line COPYTO": named("REPOSITORY /one\n", CopySuffix),
		"other": named(own, "other@copy"),
		"home@copy is the name of another repository: leave one": named(own, "home@copy", "--repo", "/three"),
	} {
		_, _, err := m.resolve(t)
		require.ErrorContains(t, err, text)
	}
}
