/** The rows of the database as the core sees them: names and types of TypeScript, not of SQL. */
import type { Path } from '../base/path.js'
import type { Right, ShareMode } from '../base/rights.js'

/** There is one guest, whose requests have not signed in, and one admin. */
export type Role = 'general' | 'guest' | 'admin'

export interface UserRow {
  readonly id: number
  readonly username: string
  /**
   * scrypt hash of the static hash of the password, with parameters and salt; or an imported one
   * (accounts/passwords.ts).
   */
  readonly passwordHash: string
  /**
   * Unix time in seconds of the last event that ended this account's sessions (a new password, a new name, being
   * disabled, signing out everywhere); 0 for never. Part of every token; never decreases.
   */
  readonly passwordTime: number
  readonly basePath: Path
  readonly role: Role
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
  /** Base32; empty while two-step verification is off. */
  readonly otpSecret: string
  /** The user sees only what a grant allows. */
  readonly grantedOnly: boolean
  /** Addresses and networks in CIDR notation from which the account can be used. Empty: from everywhere. */
  readonly allowFrom: readonly string[]
  /** When the account ends. Undefined: never. */
  readonly expires: Date | undefined
}

export interface GroupRow {
  readonly id: number
  readonly name: string
  readonly description: string
  /** Permission bits that its members have besides their own. */
  readonly permission: number
  /** Whether the members of the group are admins. */
  readonly admin: boolean
  /** Whether the members of the group can do nothing but set up two-step verification until they have done so. */
  readonly requireTwoStep: boolean
}

export interface GroupMember {
  readonly groupId: number
  readonly userId: number
}

/** Rights of a user or of a group at a path and everything below it. A grant that allows anything allows `see`. */
export interface Grant {
  readonly id: number
  /** Either this or `groupId` is defined. */
  readonly userId: number | undefined
  readonly groupId: number | undefined
  readonly path: Path
  readonly allow: readonly Right[]
  readonly deny: readonly Right[]
}

/** Files and folders that visitors reach by an id, without an account. */
export interface ShareRow {
  readonly id: string
  readonly creatorId: number
  readonly mode: ShareMode
  /** The code that visitors have to send, as its creator reads it. Empty: none. */
  readonly code: string
  /** When the share ends. Undefined: never. */
  readonly expires: Date | undefined
  /** How many visits there may be; 0 or less: any number. */
  readonly maxVisits: number
  readonly disabled: boolean
  /** A note for the creator, which visitors do not see. */
  readonly remark: string
  readonly readme: string
  readonly header: string
  readonly orderBy: StorageRow['orderBy']
  readonly orderDirection: StorageRow['orderDirection']
  readonly extractFolder: StorageRow['extractFolder']
  /** Addresses and networks of visitors; empty: any. */
  readonly allowFrom: readonly string[]
  /** Whether visitors can also open it as a drive (WebDAV). */
  readonly webdav: boolean
  /** Bytes that all uploads together may have; 0: no limit. */
  readonly uploadMaxBytes: number
  readonly uploadMaxFiles: number
  readonly created: Date
}

/** A file or folder of a share. */
export interface ShareRoot {
  readonly id: number
  readonly shareId: string
  /** The place of the root in the order of the share's roots. */
  readonly position: number
  /** A path of the whole tree. */
  readonly path: Path
  /** Whether what was shared was removed: what gets the path later is not shared. */
  readonly removed: boolean
}

/** How often a share was used. */
export interface ShareUse {
  readonly visits: number
  readonly uploadedBytes: number
  readonly uploadedFiles: number
}

/** How a request is recognized as one of a visit that has begun. */
export interface Visitor {
  /** The digest of the cookie that the request sends; undefined if it sends none. */
  readonly cookie: string | undefined
  /** The digest of the cookie that the visitor gets if a visit begins and the request sends none. */
  readonly issued: string
  /** The digest of the visitor's network and program. */
  readonly client: string
}

export interface KeyRow {
  readonly id: number
  readonly userId: number
  readonly title: string
  /** `ssh-ed25519` and so on. */
  readonly type: string
  /** The public key blob of RFC 4253 §6.6. */
  readonly blob: Buffer
  /** `SHA256:` and unpadded base64. */
  readonly fingerprint: string
  readonly added: Date
  readonly lastUsed: Date
}

/** A password for one program of an account, valid for some protocols. */
export interface AppPasswordRow {
  readonly id: number
  readonly userId: number
  /** The name that its owner chose. */
  readonly name: string
  /** The unique readable prefix of the password, used to look it up. */
  readonly prefix: string
  /** SHA-256 of the whole password, in hexadecimal. */
  readonly digest: string
  /** Names of the protocols that accept it. */
  readonly protocols: readonly string[]
  readonly readOnly: boolean
  /** What it opens: a folder below the base folder of its user, as a path of the user. */
  readonly folder: Path
  /** When it ends. Undefined: never. */
  readonly expires: Date | undefined
  readonly added: Date
  /** Undefined if it was never used. */
  readonly lastUsed: Date | undefined
}

/** A sign-in to the console by one browser. */
export interface ConsoleSessionRow {
  readonly id: number
  readonly userId: number
  /** The unique readable prefix of its secret, used to look it up. */
  readonly prefix: string
  /** SHA-256 of its secret, in hexadecimal. */
  readonly digest: string
  /** The user's `passwordTime` at the sign-in. The session is valid while they are equal. */
  readonly passwordTime: number
  /** The client's address at the sign-in, without port. */
  readonly address: string
  readonly userAgent: string
  readonly created: Date
  /** When the user last sent password and code again (docs/decisions/0042). */
  readonly confirmed?: Date | undefined
  readonly lastUsed: Date
  readonly expires: Date
}

/** A storage as the admin configured it. */
export interface StorageRow {
  readonly id: number
  readonly mountPath: Path
  readonly order: number
  readonly driver: string
  /** Minutes for which a listing stays in the cache. */
  readonly cacheExpiration: number
  readonly customCachePolicies: string
  /** The state of the storage or the error of its last start, as text for the admin (src/mounts/mounts.ts). */
  readonly status: string
  /** Options of the driver, as JSON text. */
  readonly addition: string
  readonly remark: string
  readonly modified: Date
  readonly disabled: boolean
  readonly disableIndex: boolean
  readonly enableSign: boolean
  readonly orderBy: '' | 'name' | 'size' | 'modified'
  readonly orderDirection: '' | 'asc' | 'desc'
  readonly extractFolder: '' | 'front' | 'back'
  readonly webProxy: boolean
  readonly webdavPolicy: '302_redirect' | 'use_proxy_url' | 'native_proxy'
  readonly proxyRange: boolean
  readonly downProxyUrl: string
  readonly disableProxySign: boolean
}

export interface TaskRow {
  readonly id: string
  readonly kind: string
  /** What it is about, as JSON text. Of a task that an earlier version added: a text for users. */
  readonly subject: string
  readonly userId: number
  /** Name and role of the user at the time of the request. */
  readonly username: string
  readonly role: Role
  readonly state: string
  readonly status: string
  readonly error: string
  readonly totalBytes: number
  readonly doneBytes: number
  /** What it does at present, for other processes; as JSON. */
  readonly phase?: unknown
  /** The task's plan, as JSON text. */
  readonly plan: string
  /** Number of runs since the task was requested or last retried by a user. */
  readonly tries: number
  readonly created: Date
  /** Start of its first run. */
  readonly started: Date | undefined
  readonly ended: Date | undefined
}

/** The unfinished tasks of one user. */
export interface UnfinishedTasks {
  readonly userId: number
  readonly count: number
  /** Characters of their names and plans. */
  readonly size: number
}

/**
 * What a user wants of a task that another node owns. 'clear': deletes it if it has ended.
 */
export type TaskAction = 'cancel' | 'retry' | 'delete' | 'clear'

export interface TaskRequestRow {
  readonly id: number
  readonly taskId: string
  readonly action: TaskAction
}

/** The journaled result of one item of a copy or move task. */
export interface TaskItemRow {
  readonly taskId: string
  /** Path of the source in the whole tree. */
  readonly path: Path
  /**
   * 'begun': a folder whose copy this task creates, or whose extraneous target entries are already recorded. 'copied':
   * the copy exists, is verified, and is distinct from the source. 'replaced': the copy exists and is verified, but it
   * replaced an entry that could not be proved distinct from the source. 'extraneous': an entry of the target,
   * with no counterpart in the source; it is removed after all other items.
   */
  readonly state: 'begun' | 'copied' | 'replaced' | 'extraneous' | 'failed'
  /** State of the source when it was copied, its `contentVersion`. */
  readonly source: string
  /** State of the copy when it was verified, in the same form; empty if it was not recorded. */
  readonly copy: string
  readonly size: number
  readonly error: string
}

/** A resumable upload of a large file to a storage; the driver stores the received part. */
export interface UploadRow {
  readonly id: number
  /** Undefined for an orphaned upload, which is to be discarded. */
  readonly taskId: string | undefined
  /** Path in the whole tree: of the source, or of the target for an upload task. */
  readonly path: Path
  /** State of the source from which the bytes were read. */
  readonly source: string
  readonly storageId: number
  readonly token: string
}

/** Attributes that a backend could not store. */
export interface StoredAttributes {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
}

/**
 * An entry of the intent log, deleted with the storage. Paths are relative to the storage where nothing else is said.
 */
export interface Intent {
  readonly id: number
  readonly storageId: number
  /**
   * 'move': `from` is renamed to `to`. 'backup': the entry at `from` was renamed to `to` and is held there until its
   * replacement is published or it is restored. 'removal': the folder `from` was copied to `to`, a path of the whole
   * tree, and is being removed, as the second half of a move; or the move has made `to` itself.
   */
  readonly kind: 'move' | 'backup' | 'removal'
  readonly from: Path
  readonly to: Path
  /**
   * If `kind` is 'backup': the replacement has been published, so the backup at `to` may be deleted if `from` exists.
   * If it is 'removal': the intent is the first of two. It is stored before the move makes the folder `to`, and
   * replaced by one without this mark when the folder is made.
   */
  readonly disposable: boolean
}

/**
 * A move of a folder that a process makes item by item. Rules, grants and shares are stored at the old path until it
 * ends, and apply at both. Paths are of the whole tree.
 */
export interface RunningMove {
  readonly id: number
  readonly from: Path
  readonly to: Path
}

/**
 * Rows that a component holds in memory, and reads again after another process has changed them. `accounts`: users, SSH
 * keys, app passwords, console sessions and revoked tokens. `groups`: groups and their members. `shares`: shares and
 * their roots, not their visits. `tasks`: the requests to the owners of tasks, not the tasks. `webhooks`: what is
 * delivered where, not the deliveries.
 */
export type Topic =
  | 'accounts'
  | 'grants'
  | 'groups'
  | 'locks'
  | 'moves'
  | 'rules'
  | 'settings'
  | 'shares'
  | 'storages'
  | 'tasks'
  | 'webhooks'

export const topics: ReadonlySet<Topic> = new Set([
  'accounts',
  'grants',
  'groups',
  'locks',
  'moves',
  'rules',
  'settings',
  'shares',
  'storages',
  'tasks',
  'webhooks',
])

export function isTopic(text: string): text is Topic {
  return (topics as ReadonlySet<string>).has(text)
}

export interface LockRequest {
  readonly scope: 'exclusive' | 'shared'
  /** true: the lock covers everything below the path too. */
  readonly deep: boolean
  /** The `owner` element as the client sent it, XML text; empty for none. */
  readonly owner: string
  /** Requested timeout in seconds; capped at `maxLockSeconds`. */
  readonly seconds: number
}

export interface Lock extends Omit<LockRequest, 'seconds'> {
  /** `urn:uuid:…` */
  readonly token: string
  /** The root of the lock. */
  readonly path: Path
  readonly userId: number
  readonly username: string
  readonly expires: Date
}

/** Name of a dead property, which a WebDAV client stores for a resource (RFC 4918 §4.1). */
export interface PropertyName {
  readonly namespace: string
  readonly name: string
}

export interface Property extends PropertyName {
  /** The element's content as XML text that declares all namespaces it uses. */
  readonly value: string
  /** `xml:lang` in scope where the property was set; empty for none. */
  readonly language: string
}

/** Limits of properties in characters: each counts its namespace, name, value and language, and 256 for itself. */
export interface PropertyLimits {
  /** The size of all properties of one file or folder. */
  readonly ofPath: number
  /** The size of all properties that one user has stored. */
  readonly ofUser: number
}

export type PropertyChange = { readonly set: Property } | { readonly remove: PropertyName }

export interface FolderRule {
  readonly id: number
  readonly path: Path
  readonly password: string
  readonly passwordSub: boolean
  /** Whether all users may create folders and upload here. */
  readonly write: boolean
  readonly writeSub: boolean
  /** Lines of regular expressions, tested against base names. */
  readonly hide: string
  readonly hideSub: boolean
  readonly readme: string
  readonly readmeSub: boolean
  readonly header: string
  readonly headerSub: boolean
  /** Ids of the users who may read here; empty: all users. */
  readonly readUsers: readonly number[]
  readonly readUsersSub: boolean
  readonly writeUsers: readonly number[]
  readonly writeUsersSub: boolean
}

/**
 * `password`: an attempt to sign in, successful ones excepted. `refused`: one that was not compared, because its
 * address was locked. `code`: a one-time code, correct ones excepted; the account is a user id. `signed_in` and
 * `code_accepted`: the last success of an account from a network.
 */
export type SignInKind = 'password' | 'refused' | 'code' | 'signed_in' | 'code_accepted'

export interface SignInEvent {
  readonly kind: SignInKind
  /** The network of the client, as `networkOf` returns it. */
  readonly network: string
  /** The user name that was sent, or a user id. */
  readonly account: string
}

/** Absent fields match all events. */
export interface SignInFilter extends Partial<Omit<SignInEvent, 'kind'>> {
  readonly kinds: readonly SignInKind[]
}

/** By what events are put together: a network, an account, or both, which are a pair. */
export type SignInParty = Partial<Pick<SignInEvent, 'network' | 'account'>>

export interface SignInAge {
  /** Milliseconds since the event. */
  readonly age: number
  /** Whether its outcome is not known yet. */
  readonly pending: boolean
}

/** One running daemon, or one that has ended. */
export interface NodeRow {
  /** The name of the run: `Instance.name`. */
  readonly id: string
  /** The host, and the process on it, as admins read it. */
  readonly name: string
  /** The version of the program. */
  readonly version: string
  /** Where the node accepts connections, by protocol, as JSON text. */
  readonly addresses: string
  readonly started: Date
  /** When it last reported that it is alive: milliseconds since 1970 by the clock of the database. */
  readonly heartbeat: number
  /** When the node ended. Undefined while it is alive. */
  readonly ended: Date | undefined
  /** What it worked on at its last heartbeat, as JSON text. */
  readonly working: string
  /** Milliseconds since its heartbeat, when the row was read. */
  readonly age: number
}

/** An entry of the journal of a driver. */
export interface JournalRow {
  /** An id without spaces. The ids of earlier entries sort first. */
  readonly id: string
  readonly value: string
}

/** What clients of the gateway did within a period. */
export interface TrafficSums {
  /** Content that they have sent, and received. */
  readonly bytesIn: number
  readonly bytesOut: number
  readonly changes: number
  readonly refusals: number
}

export interface TrafficRow extends TrafficSums {
  readonly period: 'minute' | 'day'
  /** When it has begun: milliseconds since 1970. */
  readonly start: number
}
