package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// makeImage makes a sparse ext4 image with room for so many files in about an eleventh as many directories.
// Inodes hold up to 60 bytes of content themselves; there is no journal, because nobody minds the loss of the image.
func makeImage(ctx context.Context, image string, files int) error {
	inodes := int64(files)*5/4 + 10_000
	// Of the files, one in twenty takes a block of 4 KiB, and so does each directory; as much again for large ones and for
	// what the file system keeps for itself.
	size := inodes*256 + 2*(inodes/20+inodes/8)*4096 + 64<<20
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(image, size); err != nil {
		return err
	}
	made := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-I", "256", "-N", strconv.FormatInt(inodes, 10),
		"-O", "inline_data,^has_journal,^resize_inode", "-E", "lazy_itable_init=1", image)
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("make ext4 image: %w\n%s", err, out)
	}
	return nil
}

// mountImage mounts an image that makeImage made; the function it returns ends that again. Tables of inodes are not wiped
// in the background: a fresh file is all zeros.
func mountImage(ctx context.Context, image, at string) (unmount func(), err error) {
	if out, err := exec.CommandContext(ctx, "mount", "-o", "loop,noatime,noinit_itable", image, at).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mount ext4 image (this needs root; -image none does without): %w\n%s", err,
			strings.TrimSpace(string(out)))
	}
	return func() {
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), "umount", at).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "scalebench: unmount %s by hand: %v\n%s", at, err, out)
		}
	}, nil
}
