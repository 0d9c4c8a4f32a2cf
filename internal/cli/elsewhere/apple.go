package elsewhere

// tmutilCommands lists the verbs of Time Machine's tmutil.
const tmutilCommands = `
addexclusion | tm addexclusion; --exclude; --exclude-time-machine | exclusions that tmutil has set on files apply
associatedisk | | snapshots record paths, not disks
calculatedrift | tm calculatedrift
compare | tm compare; diff
delete | forget; prune | forget removes snapshots, prune frees their space
deleteinprogress | prune | removes what an interrupted backup left
deletelocalsnapshots | | tidemark makes no local snapshots of the file system
destinationinfo | tm destinationinfo; options; target check
disable | service uninstall | or job pause, for some time
enable | service install
inheritbackup | --host | all machines share a repository
isexcluded | tm isexcluded; rules explain
latestbackup | tm latestbackup; snapshots --latest
listbackups | tm listbackups; snapshots
listlocalsnapshotdates | snapshots
listlocalsnapshots | snapshots
localsnapshot | backup
machinedirectory | snapshots --host
removedestination | | change the repository in the option file
removeexclusion | tm removeexclusion
restore | restore
setdestination | setup; --repo | setup finds disks and shares, and makes the first backup
snapshot | backup
startbackup | tm startbackup; backup
status | tm status; tier show
stopbackup | tm stopbackup | or press Ctrl-C: the next run continues
thinlocalsnapshots | forget
uniquesize | tm uniquesize
verifychecksums | check --read-data
version | version
`

const tmutilFlags = `
--auto | --policy | throttle yields to all, as Time Machine does
--block | | a backup runs in the foreground
--destination | --repo
--rotation | | name one repository in each run
`
