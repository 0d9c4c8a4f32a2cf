package blobindex

import (
	"github.com/tidemark-backup/tidemark/internal/hashcache"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func namedPacks(c *hashcache.Cache) (map[format.ID]bool, error) {
	named := make(map[format.ID]bool)
	err := eachPack(c, func(id format.ID) error { named[id] = true; return nil })
	return named, err
}

func eachPack(c *hashcache.Cache, yield func(format.ID) error) error {
	for n := uint32(0); ; n++ {
		info, err := c.Pack(n)
		if err != nil {
			return nil
		}
		if err := yield(info.ID); err != nil {
			return err
		}
	}
}
