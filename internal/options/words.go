package options

import (
	"slices"
	"strings"
)

// foreign lists the options of IBM's client without effect here, so that its option files can be used unchanged.
// Capitals at the beginning of a word are its shortest form, where that is known.
const foreign = `
ABSOLUTE AFMSKIPUNCACHEDFILES ARCHMC ARCHSYMLINKASFILE ASNODEname ASRMODE AUDITLOGging AUDITLOGName AUTODEPLOY
AUTOFSRename AUTOMOUNT BACKMC BACKUPREGISTRY BACKUPSETNAME BASESNAPSHOTNAME CADLISTENONPORT CASESENSITIVEAWARE
CHECKTHINPROVISIONING CLASS CLEARHSMAUTOMIGATTR CLIENTVIEW CLUSTERDISKSONLY CLUSTERNODE CLUSTERSHAREDFOLDER
COLLOCATEBYFILESPEC COMMMethod COMMRESTARTDuration COMMRESTARTInterval COMPRESSAlways CONSOLE CREATENEWBASE CSV
DATACENTER DATASTORE DATEformat DEFAULTSERVERPASSWORD DELETEFILES DESCRIPTION DETail DFSBACKUPMNTPNT DIFFSNAPSHOT
DIFFSNAPSHOTNAME DIRMC DIRSONLY DISABLENQR DISKBUFFSIZE DISKCACHELOCATION DISKMONITOR DNSLOOKUP
DOMAIN.IMage DOMAIN.NAS DOMAIN.VMFULL DONTLOAD EDITOR EFSDECRYPT ENABLE8DOT3NAMESUPPORT ENABLEARCHIVERETENTIONPROTECTION
ENABLEINSTRUMENTATION ENABLELANFREE ENCRYPTIONTYPE ENCRYPTKEY ERRORLOGMAX ERRORLOGRetention
ERRORPROGRAM FBBRANCH FBCLIENTNAME FBPOLICYNAME FBREPOSLOCATION FBSERVER FBVOLUMENAME FILELIST FILENAME FILESONLY
FIPSMODE FOLLOWSYMBOLIC FORCEFAILOVER FRomdate FROMNODE FROMOWNER FROMTIME GROUPName GROUPS HOST HTTPport
HSMBACKENDMODE HSMDISABLEAUTOMIGDAEMONS HSMDISTRIBUTEDRECALL HSMEVENTLOGFLAGS HSMEXTOBJIDATTR HSMGROUPEDMIGRATE
HSMLOGEVENTFLAGS HSMLOGMAX HSMLOGNAME HSMLOGRETENTION HSMLOGSAMPLEINTERVAL HSMMAXRECALLTAPEDRIVES HSMMIGZEROBLOCKFILES
HSMREPARSETAG HSMTOKEN IFNEWER IMAGEGAPSIZE IMAGETOFILE INACTIVE INCRBYDATE INCREMENTAL INCRTHRESHOLD INSTRLOGMAX
INSTRLOGNAME KERNELMESSAGES LANFREECommmethod LANFREEShmport LANFREESSL LANFREETCPport LANFREETCPServeraddress LANGuage
LARGECOMMBUFFERS LATEST LOCALBACKUPSET LOCKNODE MAILPROG MAKESPARSEFILE MANAGEDServices MAXCMDRetries MAXRECALLDAEMONS
MAXRECONCILEPROC MAXMIGRATORS MAXTHRESHOLDPROC MBOBJREFRESHTHRESH MBPCTREFRESHTHRESH MFSERVER MIGFILEEXPIRATION
MIGRATESERVER MINMIGFILESIZE MINPARTIALRECALLSIZE MINSTREAMFILESIZE MODE MONITOR MYPRIMARYSERVERname MYREPLICATIONSERVER
NAMEDPIPENAME NASNODEname NETWARE NEWERTHAN NFSTIMEout NODename NOJOURNAL NOPROMPT NRTABLEPATH NUMBERformat
OBJTYPE OFFSET OPTFILE OVERFLOW PASSWORD PASSWORDAccess PASSWORDDIR PAGESIZE PICK PITDATE PITTIME POSTSNAPSHOTCMD
PRESERVELastaccessdate PRESERVEPATH PRESNAPSHOTCMD
PREVIEW PRIORITY PROCESSOR PROXYNODE QUERYSCHEDperiod QUERYSUMMARY QUIET RECALLDAEMONS RECONCILEINTERVAL
RELATIVEREPLICATION REMOVEOPERANDLIMIT REPLace REPLACEVM REPLSERVERGUID REPLSERVERNAME REPLSSLPORT REPLTCPPORT
REPLTCPSERVERADDRESS RESETARCHIVEATTRIBUTE RESETENCRYPTION RESTOREMIGSTATE RETRYPeriod REVOKEREMOTEACCESS RUNASSERVICE
SCHEDCMDDisabled SCHEDCMDException SCHEDGROUP SCHEDLOGMAX SCHEDLOGRetention SCHEDMODe SCHEDRESTRETRdisabled
SCROLLLINES SCROLLPROMPT SESSIONINITiation SESSIONSECURITY SETWINDOWTITLE SHARECAPABLE SHMPort SHOWMEMBERS SKIPACL
SKIPACLUPDATECHECK SKIPMIGRATED SKIPNTPERMISSIONS SKIPNTSECURITYCRC SKIPSYSTEMEXCLUDE SNAPDIFF SNAPDIFFCHANGELOGDIR
SNAPDIFFHTTPS SNAPSHOTCACHESIZE SNAPSHOTEXCLUDELIST SNAPSHOTFSIDLERETRIES SNAPSHOTFSIDLEWAIT SNAPSHOTPROVIDERFS
SNAPSHOTPROVIDERIMAGE SNAPSHOTROOT SRVOPTSETENCryptiondisabled SRVPREPOSTSCHeddisabled SRVPREPOSTSNApdisabled SSL
SSLACCEPTCERTFROMSERV SSLDISABLELEGACYTLS SSLFIPSMODE SSLREQUIRED STAGINGDIRectory STREAMSEQUENTIAL SYMBOLICDESTINATION
SYSTEMSTATEBACKUPMETHOD TAPEPRompt TARGETDIR TCPADMINPort TCPCADAddress TCPCLIENTAddress TCPCLIENTPort TCPNODELAY
TCPPort TCPServeraddress TESTFLAG TIMEformat TOC TODATE TOTIME TRACEFILE TRACEFLAGS TRACEMAX TRACESEGSIZE TYPE
UPDATEFAILOVERLOCATION USEDIRECTORY USEEXISTINGBASE USEREPLICATIONFAILOVER USERS VAULTDIR V2ARCHIVE VERBOSE VERIFYIMAGE
VIRTUALFSNAME VIRTUALMountpoint VIRTUALNodename VMAUTOSTARTVM VMBACKDIR VMBACKMC VMBACKNODE VMBACKUPLOCATION
VMBACKUPMAILBOXHISTORY VMBACKUPTYPE VMCHOST VMCPW VMCTLMC VMCUSER VMDATASTORETHRESHOLD VMDEFAULTDVPORTGROUP
VMDEFAULTDVSWITCH VMDEFAULTNETWORK VMDISKPROVISION VMENABLETEMPLATEBACKUPS VMEXPIREPROTECT VMFOLDER VMISCSIADAPTER
VMISCSISERVERADDRESS VMLIMITPERDATASTORE VMLIMITPERHOST VMLIST VMMAXBACKUPSESSIONS VMMAXPARALLEL VMMAXRESTORESESSIONS
VMMAXRESTOREPARALLELDISKS VMMAXRESTOREPARALLELVMS VMMAXSNAPSHOTRETRY VMMAXVIRTUALDISKS VMMC VMMOUNTAGE VMNAME
VMNOPRDMDISKS VMNOVRDMDISKS VMPREFERDAGPASSIVE VMPROCESSVMWITHINDEPENDENT VMPROCESSVMWITHPRDM VMPROCESSWITHPASSTHRU
VMRESTORETYPE VMSKIPCTLCOMPRESSION VMSKIPMAXVIRTUALDISKS VMSKIPMAXVMDKS VMSKIPPHYSDISKS VMSNAPSHOTATTEMPTS
VMSTORAGETYPE VMTAGDATAMOVER VMTAGDEFAULTDATAMOVER VMTEMPDATASTORE VMTEMPNETWORK VMTIMEOUT VMVERIFYIFACTION
VMVERIFYIFLATEST VMVSTORCOMPR VMVSTORTRANSPORT VSSALTSTAGINGDIR VSSUSESYSTEMPROVIDER WASNODE WEBPORTS
WILDCARDSARELITERAL EVENTLOGGING CHECKFORORPHANS
`

// hintOf returns the replacement of an option without effect here, "" when there is none.
func hintOf(keyword string) string {
	switch keyword {
	case "DOMAIN.IMAGE":
		return "there are no image backups: name the file systems in DOMAIN to back up their files"
	case "OPTFILE":
		return "see --option-file"
	case "PASSWORD", "PASSWORDACCESS", "PASSWORDDIR":
		return "see PASSWORDFILE, PASSWORDCOMMAND and KEYFILE"
	case "TCPSERVERADDRESS", "TCPPORT", "COMMMETHOD":
		return "name the place of the repository with REPOSITORY"
	case "DISKBUFFSIZE", "LARGECOMMBUFFERS":
		return "see MEMORY"
	case "ERRORLOGMAX", "ERRORLOGRETENTION", "SCHEDLOGMAX", "SCHEDLOGRETENTION":
		return "a log of more than 10 MiB is renamed to NAME.old"
	case "SCHEDMODE", "QUERYSCHEDPERIOD", "MANAGEDSERVICES", "MAXCMDRETRIES", "RETRYPERIOD":
		return "the service runs jobs by SCHEDULE: see 'tidemark service install'"
	case "ENCRYPTIONTYPE", "ENCRYPTKEY":
		return "every repository is encrypted"
	}
	return ""
}

// vocabulary finds keywords, whole or shortened: those of options, and IBM's.
type vocabulary []word

type word struct {
	full     string  // upper case
	shortest int     // minimum length in bytes
	option   *Option // that it sets; nil: none
}

// The keywords of a file's structure.
const (
	server        = "SERVERNAME"
	defaultServer = "DEFAULTSERVER"
)

// vocabularyOf returns the keywords of a table and IBM's. The capitals (digits, dots) at the beginning of a word are
// its shortest form. An abbreviation stands for the first keyword it fits; those of the table come first.
func vocabularyOf(table []Option) (v vocabulary) {
	add := func(text string, o *Option) {
		shortest := strings.IndexFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' })
		if shortest < 0 {
			shortest = len(text)
		}
		full := strings.ToUpper(text)
		if !slices.ContainsFunc(v, func(w word) bool { return w.full == full }) {
			v = append(v, word{full, shortest, o})
		}
	}
	add("SErvername", nil)
	add("DEFAULTServer", nil)
	for i := range table {
		for _, text := range table[i].Keywords() {
			add(text, &table[i])
		}
	}
	for text := range strings.FieldsSeq(foreign) {
		add(text, nil)
	}
	return v
}

// find returns the keyword for a text, nil for other texts.
func (v vocabulary) find(text string) *word {
	text = strings.ToUpper(text)
	i := slices.IndexFunc(v, func(w word) bool { return w.full == text })
	if i < 0 {
		i = slices.IndexFunc(v, func(w word) bool { return len(text) >= w.shortest && strings.HasPrefix(w.full, text) })
	}
	if i < 0 {
		return nil
	}
	return &v[i]
}

// closest returns a keyword that text may be a misspelling or too short an abbreviation of; "" without a close one.
// Those of the table win.
func (v vocabulary) closest(text string) string {
	text = strings.ToUpper(text)
	best, distance := "", min(3, max(len(text)/3, 1)+1)
	consider := func(candidate string) {
		shortened := len(text) >= 3 && strings.HasPrefix(candidate, text)
		if shortened && (distance > 1 || strings.HasPrefix(best, candidate)) {
			best, distance = candidate, 1
		}
		if d := editDistance(text, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	for _, statement := range []string{"INCLUDE", "EXCLUDE", "EXCLUDE.DIR", "EXCLUDE.FS", "EXCLUDE.FILE"} {
		consider(statement)
	}
	for _, w := range v { // those of the table come first
		consider(w.full)
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
