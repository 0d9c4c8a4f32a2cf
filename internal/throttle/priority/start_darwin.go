package priority

import "github.com/tidemark-backup/tidemark/pkg/iopolicy"

// startUnder calls start so that a process made by it is born with the priority of a policy, which it has from the
// process that makes it: this one, which does nothing else from here on.
func startUnder(policy iopolicy.Policy, start func() error) (Applied, error) {
	p, err := This(true) // the program has no gates
	if err != nil {
		return Applied{Policy: policy}, err
	}
	out, err := p.Apply(policy)
	if err != nil {
		return out, err
	}
	return out, start()
}
