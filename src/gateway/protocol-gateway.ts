/**
 * The gateway as protocols see it. They reach the tree by `as`, `asAdmin`, the signed URLs, the shares and the tasks
 * only, each of which takes a principal or returns one's view. The administration of accounts, groups, grants, shares,
 * storages, settings, rules, locks and the search index does not read or change files: an endpoint declares who may
 * call it. What a protocol does not use, such as starting and closing, is not listed.
 */
import type { Traffic } from '../audit/traffic.js'
import type { Accounts } from '../accounts/accounts.js'
import type { DriverDescription } from '../contract/driver-type.js'
import type { Store } from '../database/tables.js'
import type { OfflineDownloads } from '../offline-downloads/offline-downloads.js'
import type { Cluster } from '../cluster/cluster.js'
import type { Search } from '../search/search.js'
import type { Settings } from '../settings/settings.js'
import type { VisitorAccess } from '../shares/visitor-access.js'
import type { LdapSignIn } from '../sign-in/ldap-sign-in.js'
import type { SignInTrials } from '../sign-in/sign-in-trials.js'
import type { Passkeys } from '../sign-in/passkeys.js'
import type { Shares } from '../shares/shares.js'
import type { Tasks } from '../tasks/tasks.js'
import type { Rules } from '../tree/folder-rules.js'
import type { Grants } from '../tree/grants.js'
import type { Locks } from '../locks/webdav-locks.js'
import type { SingleSignOn } from '../sign-in/single-sign-on.js'
import type { UploadSessions } from '../uploads/upload-sessions.js'
import type { SignedUrls } from '../download-urls/signed-urls.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Gateway, Listening } from './gateway.js'
import type { UploadedImports } from '../installation/import/uploaded-imports.js'
import type { Connections } from './connections.js'
import type { LogTail } from './log-tail.js'
import type { Metrics } from './metrics.js'
import type { Audit } from '../audit/audit.js'
import type { StorageAdmin } from '../mounts/storage-admin.js'
import type { StorageSignIns } from '../mounts/storage-sign-ins.js'
import type { StorageTrials } from '../mounts/storage-trials.js'

/** Signing in, which yields principals, and the rows of accounts for their administration. */
interface ProtocolAccounts extends Pick<Accounts, 'reload'> {
  readonly signIn: Pick<
    Accounts['signIn'],
    | 'byKey'
    | 'byPassword'
    | 'confirmConsoleSession'
    | 'findKey'
    | 'hasRecorded'
    | 'isRecent'
    | 'issueToken'
    | 'openConsoleSession'
    | 'recordRefusal'
  >
  readonly users: Pick<
    Accounts['users'],
    'byName' | 'byUniqueRole' | 'create' | 'delete' | 'endSessions' | 'get' | 'list' | 'update' | 'updateOwn'
  >
  readonly admission: Pick<Accounts['admission'], 'assertStaysIn'>
  readonly identities: Pick<Accounts['identities'], 'of'>
  readonly groups: Pick<Accounts['groups'], 'create' | 'delete' | 'get' | 'list' | 'of' | 'update'>
  readonly principals: Pick<Accounts['principals'], 'forSignature' | 'guest' | 'isGuestName'>
  readonly tokens: Pick<Accounts['tokens'], 'isPermanent' | 'principalOf' | 'revoke'>
  readonly keys: Pick<Accounts['keys'], 'add' | 'delete' | 'get' | 'list'>
  readonly appPasswords: Pick<Accounts['appPasswords'], 'add' | 'delete' | 'get' | 'list'>
  readonly consoleSessions: Pick<
    Accounts['consoleSessions'],
    'all' | 'close' | 'delete' | 'find' | 'get' | 'list' | 'principalOf' | 'signOut'
  >
  readonly lockedSignIns: Pick<Accounts['lockedSignIns'], 'list' | 'unlockNetwork' | 'unlockUser'>
  readonly twoStep: Pick<
    Accounts['twoStep'],
    'assertSecondStep' | 'disable' | 'enable' | 'needsSecondStep' | 'renewRecoveryCodes'
  >
  readonly recoveryCodes: Pick<Accounts['recoveryCodes'], 'count'>
}

export type ProtocolSettings = Pick<
  Settings,
  'bool' | 'defaults' | 'delete' | 'get' | 'guard' | 'number' | 'public' | 'resetToken' | 'rows' | 'set' | 'with'
>

/** Tasks as their owner and admins see them. `submitTransfer` and `submitUpload` of the gateway add tasks. */
export type ProtocolTasks = Pick<
  Tasks,
  'cancel' | 'clear' | 'delete' | 'failures' | 'get' | 'list' | 'retry' | 'retryFailed'
>

/** The secrets that a protocol keeps in the database, such as a key of its server. Each has a name of its own. */
export interface ProtocolSecrets {
  get(name: string): Promise<string | undefined>
  obtain(name: string, candidate: string): Promise<string>
}

export interface ProtocolGateway extends Pick<
  Gateway,
  | 'as'
  | 'asAdmin'
  | 'config'
  | 'descriptors'
  | 'explain'
  | 'isReady'
  | 'log'
  | 'protocols'
  | 'submitTransfer'
  | 'submitUpload'
> {
  readonly accounts: ProtocolAccounts
  readonly audit: Pick<Audit, 'record'>
  readonly cluster: Pick<Cluster, 'instance' | 'status'>
  readonly connections: Pick<Connections, 'end' | 'list'>
  /** The drivers of which storages can be created. `storages` opens them. */
  readonly driverTypes: readonly DriverDescription[]
  readonly downloads: Pick<OfflineDownloads, 'add' | 'setAria2' | 'setQBittorrent' | 'setStorageFolder' | 'toolNames'>
  readonly grants: Pick<Grants, 'check' | 'of' | 'reload' | 'replace'>
  readonly imports: Pick<UploadedImports, 'run'>
  readonly ldap: Pick<LdapSignIn, 'isOn' | 'link'>
  readonly listening: Listening
  readonly locks: Pick<Locks, 'break' | 'know' | 'list'>
  readonly logTail: Pick<LogTail, 'after' | 'lastId'>
  readonly metrics: Pick<Metrics, 'contentType' | 'text'>
  /** What has happened, for admins. */
  readonly records: {
    readonly audit: Pick<Store['audit'], 'after' | 'last' | 'list'>
    readonly traffic: Pick<Traffic, 'of'>
  }
  readonly passkeys: Pick<
    Passkeys,
    'beginOf' | 'beginRegistration' | 'beginSignIn' | 'delete' | 'list' | 'proof' | 'register' | 'rename' | 'secondStep'
  >
  readonly rules: Pick<Rules, 'create' | 'delete' | 'list' | 'update'>
  readonly secrets: ProtocolSecrets
  readonly search: Pick<Search, 'build' | 'clear' | 'isOn' | 'progress' | 'stop' | 'update'>
  readonly settings: ProtocolSettings
  readonly visitorAccess: Pick<VisitorAccess, 'assertMayShare' | 'open' | 'state'>
  readonly shares: Pick<
    Shares,
    'actsForOthers' | 'create' | 'delete' | 'find' | 'has' | 'of' | 'pseudonymOf' | 'reload' | 'update' | 'use'
  >
  readonly signedUrls: Pick<SignedUrls, 'authorize' | 'signSelection' | 'verifySelection' | 'sign' | 'signFor'>
  readonly singleSignOn: Pick<
    SingleSignOn,
    'begin' | 'complete' | 'completeWithCode' | 'endByProvider' | 'link' | 'signOutPage' | 'unlink'
  >
  readonly signInTrials: Pick<SignInTrials, 'ofDirectory' | 'ofProvider'>
  readonly storages: Pick<
    StorageAdmin,
    'check' | 'create' | 'delete' | 'disable' | 'enable' | 'get' | 'list' | 'restartAll' | 'update' | 'usage'
  >
  readonly storageSignIns: Pick<StorageSignIns, 'ask' | 'begin'>
  readonly tasks: ProtocolTasks
  readonly trials: Pick<StorageTrials, 'run'>
  readonly uploads: Pick<UploadSessions, 'abort' | 'find' | 'get' | 'open'>
  readonly webhooks: Pick<
    Webhooks,
    'create' | 'delete' | 'deliveries' | 'list' | 'replay' | 'rotate' | 'test' | 'update'
  >
}
