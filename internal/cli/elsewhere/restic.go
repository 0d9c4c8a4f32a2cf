package elsewhere

// resticCommands lists the commands of restic.
const resticCommands = `
backup | backup
cache | cache
cat | ls; dump | internal objects are not printed
check | check
copy | copy
diff | diff
dump | dump
features | | there are no feature flags
find | find
forget | forget
generate | completion; man
init | init
key | key
key add | key add
key list | key list
key passwd | key add; key remove | add the new key, then remove the old one
key remove | key remove
list | snapshots; ls; check | snapshots lists snapshots, ls the files in one
ls | ls
mount | mount
migrate | | the repository has one format, so there is nothing to migrate
options | options
prune | prune
rebuild-index | repair index
recover | repair snapshots | only where a snapshot is damaged
repair | repair
repair index | repair index
repair packs | repair packs
repair snapshots | repair snapshots
restore | restore
rewrite | rewrite
self-update | | install a new version as you installed this one
snapshots | snapshots
stats | stats
tag | tag
unlock | | there are no locks to remove: a lease of a dead process expires
version | version
`

const resticFlags = `
--cacert | | there is no HTTPS storage
--cleanup-cache | cache --cleanup
--exclude-cloud-files | | it concerns Windows
--exclude-xattr | | all extended attributes are restored
--from-repository-file | --from-repo
--include-xattr | | all extended attributes are restored
--insecure-no-password | --key-file | each repository has a key
--insecure-tls | | there is no HTTPS storage
--key-hint | | the key that worked last is tried first
--max-repack-size | prune --max-unused
--no-extra-verify | --verify-writes
--no-lock | | there are no locks
--no-scan | | a backup scans while it reads
--option | --option-file | options of storages are ordinary options
--ownership-by-name | restore --by-name
--pack-size | | packs have 16 MiB
--read-concurrency | --readers; --resource-utilization
--repack-cacheable-only | prune --max-unused
--repack-small | | prune repacks small packs by itself
--repack-smaller-than | | prune repacks small packs by itself
--repack-uncompressed | | data keeps the compression with which it was stored
--repository-file | --repo | name the repository itself, or REPOSITORY in an option file
--repository-version | | the repository has one format
--copy-chunker-params | init --same-key
--retry-lock | | there are no locks
--stuck-request-timeout | | a request to a share has a time limit of its own
--tls-client-cert | | there is no HTTPS storage
--unsafe-allow-remove-all | forget | name the snapshots by their IDs to remove all of them
--unsafe-recover-no-free-space | prune | prune works on a full disk
--use-fs-snapshot | | it concerns Windows
--with-cache | check | the cache is not used where it would hide damage
`

const resticVariables = `
RESTIC_REPOSITORY | TIDEMARK_REPOSITORY
RESTIC_REPOSITORY_FILE | TIDEMARK_REPOSITORY | names the repository, not a file with its name
RESTIC_PASSWORD | TIDEMARK_PASSWORD
RESTIC_PASSWORD_FILE | TIDEMARK_PASSWORD_FILE
RESTIC_PASSWORD_COMMAND | TIDEMARK_PASSWORD_COMMAND
RESTIC_FROM_REPOSITORY | TIDEMARK_FROM_REPOSITORY
RESTIC_FROM_REPOSITORY_FILE | TIDEMARK_FROM_REPOSITORY | names the repository, not a file with its name
RESTIC_FROM_PASSWORD | TIDEMARK_FROM_PASSWORD
RESTIC_FROM_PASSWORD_FILE | TIDEMARK_FROM_PASSWORD_FILE
RESTIC_FROM_PASSWORD_COMMAND | TIDEMARK_FROM_PASSWORD_COMMAND
RESTIC_CACHE_DIR | TIDEMARK_CACHE_DIR
RESTIC_COMPRESSION | TIDEMARK_COMPRESSION
RESTIC_PROGRESS_FPS | TIDEMARK_PROGRESS_INTERVAL
RESTIC_READ_CONCURRENCY | TIDEMARK_READERS
`
