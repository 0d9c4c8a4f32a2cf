package elsewhere

// borgCommands lists the commands of Borg 1.4 and those that Borg 2 renames.
const borgCommands = `
benchmark | bench
break-lock | | there are no locks to break: a lease of a dead process expires
change-passphrase | key add; key remove | add the new key, then remove the old one
check | check; repair | | check --repo REPO
compact | prune | | prune --repo REPO
config | options | options come from flags, the environment and an option file
create | backup | | backup --repo REPO PATHS
debug | check; ls
delete | forget; prune | forget removes snapshots, prune frees their space | forget --repo REPO --prune ID
diff | diff
export-tar | dump --archive
extract | restore --target | --target / restores to the original places | restore --repo REPO latest --target DIR
import-tar | backup --stdin | the archive is stored as one file
info | stats; snapshots | | stats --repo REPO latest; stats --repo REPO
init | init | | init --repo REPO
key | key
key change-passphrase | key add; key remove | add the new key, then remove the old one
key change-location | key add; key remove
key export | key recovery | the recovery key opens the repository on any machine
key import | --key-file | a recovery key or key file works as it is
list | snapshots; ls | snapshots lists snapshots, ls the files in one | ls --repo REPO latest; snapshots --repo REPO
mount | mount | | mount --repo REPO PATHS latest; mount --repo REPO LAST
prune | forget --prune | forget by --keep-daily and its like, then prune | forget --repo REPO --prune --keep-daily 7
recreate | rewrite
rename | tag | snapshots have IDs and tags instead of names
repo-create | init | | init --repo REPO
repo-compress | | data keeps the compression with which it was stored
repo-delete | | delete the folder of the repository
repo-info | stats
repo-list | snapshots | | snapshots --repo REPO
repo-space | | no space is reserved: a full disk leaves a valid repository
transfer | copy
umount | | unmount with fusermount3 -u, or Ctrl-C where it runs
undelete | forget --undo
upgrade | | the repository has one format, so there is nothing to upgrade
version | version
with-lock | | there are no locks
`

const borgFlags = `
-C | --compression
-e | init | every repository is encrypted; --password-file or --key-file sets the key
--append-only | | make the repository's folder append-only on the server
--atime | --with-atime
--checkpoint-interval | --txn-byte-limit
--chunker-params | | a repository sets its chunk sizes at creation
--comment | backup --description
--content-from-command | backup --stdin-from-command
--critical | --quiet
--debug | --verbose
--encryption | init | every repository is encrypted; --password-file or --key-file sets the key
--exclude-from | --exclude-file
--files-cache | backup --ignore-inode; backup --ignore-ctime
--first | snapshots | the list is sorted by time
--format | --json
--glob-archives | --host; --tag; --path
--info | --verbose
--keep-exclude-tags | --exclude-if-present | the marker file is always kept
--keep-minutely | forget --keep-within
--keep-secondly | forget --keep-within
--last | snapshots --latest
--list | --verbose
--lock-wait | | there are no locks
--log-json | --json
--match-archives | --host; --tag; --path
--noacls | | ACLs are always stored
--noatime | | access times are stored with --with-atime only
--noflags | | flags are always stored
--noctime | | the change time is always stored
--noxattrs | | extended attributes are always stored
--numeric-ids | restore | owners are restored by number unless --by-name is given
--numeric-owner | restore | owners are restored by number unless --by-name is given
--paths-from-command | backup --files-from
--paths-from-stdin | backup --files-from | --files-from - reads standard input
--pattern | --exclude; restore --include
--patterns-from | --exclude-file
--progress | --progress-interval | progress is shown without a flag
--read-special | | devices and pipes are never read; use --stdin
--remote-path | | a repository is a folder or an SMB share
--repair | repair index; repair packs; repair snapshots
--rsh | | a repository is a folder or an SMB share
--save-space | prune --max-unused
--show-rc | --json
--stats | --json | the report at the end has the statistics
--stdin-name | backup --stdin-filename
--stdout | dump
--storage-quota | | set a quota on the disk or share
--strip-components | restore | name a folder after the snapshot: SNAPSHOT:/PATH
--timestamp | backup --time
--upload-ratelimit | --limit-upload
--remote-ratelimit | --limit-upload
--umask | | files of a repository are readable by their owner only
--verify-data | check --read-data
`

const borgVariables = `
BORG_REPO | TIDEMARK_REPOSITORY
BORG_NEW_PASSPHRASE | TIDEMARK_PASSWORD
BORG_PASSPHRASE | TIDEMARK_PASSWORD
BORG_PASSCOMMAND | TIDEMARK_PASSWORD_COMMAND
BORG_PASSPHRASE_FD | TIDEMARK_PASSWORD_FILE | names a file
BORG_OTHER_REPO | TIDEMARK_FROM_REPOSITORY
BORG_CACHE_DIR | TIDEMARK_CACHE_DIR
`
