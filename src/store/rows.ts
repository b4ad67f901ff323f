/** The rows of the database as the core sees them: names and types of TypeScript, not of SQL. */
import type { Path } from '../contract/path.js'

export interface UserRow {
  readonly id: number
  readonly username: string
  /** scrypt hash of the static hash of the password, with parameters and salt. */
  readonly passwordHash: string
  /**
   * Unix time in seconds of the last event that ended this account's sessions (a new password, a new name, being
   * disabled); 0 for never. Part of every token; never decreases.
   */
  readonly passwordTime: number
  readonly basePath: Path
  /** 0 general, 1 guest, 2 admin. */
  readonly role: 0 | 1 | 2
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
  /** Base32; empty while two-step verification is off. */
  readonly otpSecret: string
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
  /** Its unique readable prefix, used to look it up. */
  readonly prefix: string
  /** SHA-256 of the whole password, in hexadecimal. */
  readonly digest: string
  /** Names of the protocols that accept it. */
  readonly protocols: readonly string[]
  readonly readOnly: boolean
  readonly added: Date
  /** Undefined if it was never used. */
  readonly lastUsed: Date | undefined
}

/** A storage as the admin configured it. */
export interface StorageRow {
  readonly id: number
  readonly mountPath: Path
  readonly order: number
  readonly driver: string
  /** Minutes. */
  readonly cacheExpiration: number
  readonly customCachePolicies: string
  /** The state of the storage or the error of its last start, as text for the admin (storage/mounts.ts). */
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
  readonly name: string
  readonly userId: number
  /** Name and role of the user at the time of the request. */
  readonly username: string
  readonly role: string
  readonly state: string
  readonly status: string
  readonly error: string
  readonly totalBytes: number
  readonly doneBytes: number
  /** The task's plan, as JSON text. */
  readonly plan: string
  /** Number of runs since the task was requested or last retried by a user. */
  readonly tries: number
  readonly created: Date
  /** Start of its first run. */
  readonly started: Date | undefined
  readonly ended: Date | undefined
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

/** An entry of the intent log. Paths are relative to the storage; deleted with the storage. */
export interface Intent {
  readonly id: number
  readonly storageId: number
  /**
   * 'move': `from` is renamed to `to`. 'backup': the entry at `from` was renamed to `to` while it is being replaced.
   */
  readonly kind: 'move' | 'backup'
  readonly from: Path
  readonly to: Path
  /** For 'backup': the backup at `to` may be deleted if `from` exists. */
  readonly disposable: boolean
}

type New<Row> = Omit<Row, 'id'>

/** Records about files: tables that may be written once per file. */
export interface FileRecords {
  /** Keyed by path of the whole tree. */
  readonly properties: {
    of(path: Path): Promise<Property[]>
    /**
     * Properties of the children of a folder, by path; only of those in `which` if it is given. Children without any
     * are omitted.
     */
    ofChildren(folder: Path, which?: readonly Path[]): Promise<Map<Path, Property[]>>
    /** Total size of the properties of all children, in characters. */
    sizeOfChildren(folder: Path): Promise<number>
    /**
     * Applies all changes in one transaction. `no_space` if the properties of `path` would exceed `maxPropertiesSize`.
     */
    change(path: Path, changes: readonly PropertyChange[]): Promise<void>
    move(from: Path, to: Path): Promise<void>
    copy(from: Path, to: Path, deep: boolean): Promise<void>
    /**
     * Pages of the paths at and below `path` that have properties. Each page reflects the database at the time it is
     * read.
     */
    within(path: Path): AsyncIterable<readonly Path[]>
    /** Whether any exist at or below one of these paths. */
    hasWithin(...paths: readonly Path[]): Promise<boolean>
    /**
     * Moves the properties of each `from`, excluding those of its descendants, to its `to`, replacing the properties
     * there; in one transaction. `keep`: copies them.
     */
    transfer(pairs: readonly (readonly [from: Path, to: Path])[], keep: boolean): Promise<void>
    delete(path: Path): Promise<void> // with everything below
  }
  /** Modification times and modes of files whose backend stores none. Moved with their files, as properties are. */
  readonly attributes: {
    of(path: Path): Promise<StoredAttributes | undefined>
    ofChildren(folder: Path): Promise<Map<Path, StoredAttributes>>
    set(path: Path, to: StoredAttributes): Promise<void>
    /** Whether any exist at or below one of these paths. */
    hasWithin(...paths: readonly Path[]): Promise<boolean>
    move(from: Path, to: Path): Promise<void>
    copy(from: Path, to: Path): Promise<void>
    delete(path: Path): Promise<void>
  }
  /** Folders of storages whose backend has no empty folders. */
  readonly folders: {
    /** When the folder was created or last changed; undefined if it is not recorded. */
    of(path: Path): Promise<Date | undefined>
    /** The same for all recorded children of a folder, by path. */
    ofChildren(folder: Path): Promise<Map<Path, Date>>
    /** Without `modified`, an existing record is unchanged and a new one gets the current time. */
    put(path: Path, modified?: Date): Promise<void>
    move(from: Path, to: Path): Promise<void>
    delete(path: Path): Promise<void> // with everything below
  }
  /**
   * The intent log: operations of a backend that the rows may not reflect yet. An intent is written before the
   * operation and deleted after it. Those that remain are resolved when their storage starts.
   */
  readonly intents: {
    all(): Promise<Intent[]>
    ofStorage(storageId: number): Promise<Intent[]>
    get(id: number): Promise<Intent | undefined>
    insert(intent: Omit<Intent, 'id'>): Promise<number>
    setDisposable(id: number, disposable: boolean): Promise<void>
    /**
     * Applies an intent of kind 'move' in one transaction: moves rules, properties and attributes, deletes the intent,
     * and marks the backup of its target as deletable. Does nothing if the intent no longer exists. `mount`: where the
     * storage is mounted.
     */
    apply(id: number, mount: Path): Promise<void>
    drop(id: number): Promise<void>
  }
}

/**
 * The database as the core uses it. Every write resolves when it is committed, and survives a power failure; only
 * writes through `relaxed` may be lost in one.
 */
export interface Store extends FileRecords {
  /**
   * The same tables. Writes survive the end of the process, but a power failure may lose those after the latest write
   * outside of `relaxed`.
   */
  readonly relaxed: FileRecords
  readonly users: {
    all(): Promise<UserRow[]>
    insert(row: New<UserRow>): Promise<UserRow> // `exists` for a taken name
    update(id: number, changes: Partial<New<UserRow>>): Promise<UserRow> // `not_found`, `exists`
    /**
     * Updates the row with what `decide` returns for the stored row, in one transaction. An error of `decide` cancels
     * the update.
     */
    change(id: number, decide: (stored: UserRow) => Partial<New<UserRow>>): Promise<UserRow>
    /** Marks the one-time code of this time step as used: false if that step, or a later one, was used before. */
    useOtpStep(id: number, step: number): Promise<boolean>
    delete(id: number): Promise<boolean>
  }
  readonly keys: {
    all(): Promise<KeyRow[]>
    insert(row: New<KeyRow>): Promise<KeyRow> // `exists` for a taken title of the same user
    touch(id: number, lastUsed: Date): Promise<void>
    delete(id: number): Promise<boolean>
  }
  readonly appPasswords: {
    all(): Promise<AppPasswordRow[]>
    insert(row: New<AppPasswordRow>): Promise<AppPasswordRow> // `exists` for a taken prefix, or a taken name of the same user
    touch(id: number, lastUsed: Date): Promise<void>
    delete(id: number): Promise<boolean>
  }
  readonly storages: {
    all(): Promise<StorageRow[]>
    insert(row: New<StorageRow>): Promise<StorageRow> // `exists` for a taken mount path
    update(id: number, changes: Partial<New<StorageRow>>): Promise<StorageRow>
    delete(id: number): Promise<boolean>
  }
  /** Stored values only; settings.ts defines the keys. */
  readonly settings: {
    all(): Promise<Map<string, string>>
    set(values: ReadonlyMap<string, string>): Promise<void> // in one transaction
    delete(key: string): Promise<boolean>
  }
  /** Values that no API returns. */
  readonly secrets: {
    /** The secret of this name. If none exists, `candidate` is stored and returned; all processes get the same one. */
    obtain(name: string, candidate: string): Promise<string>
  }
  readonly rules: {
    all(): Promise<FolderRule[]>
    insert(row: New<FolderRule>): Promise<FolderRule>
    update(id: number, changes: Partial<New<FolderRule>>): Promise<FolderRule>
    delete(id: number): Promise<boolean>
    /**
     * Moves the rules at or below `from` to `to`. A rule that has the new path of a moved one is replaced; others are
     * unchanged.
     */
    move(from: Path, to: Path): Promise<void>
  }
  readonly revokedTokens: {
    /** Tokens that have not expired yet: when they expire, by id. */
    all(): Promise<Map<string, Date>>
    insert(id: string, expires: Date): Promise<void>
    sweep(now: Date): Promise<void>
  }
  readonly locks: {
    all(): Promise<Lock[]>
    /**
     * In one transaction: passes to `conflict` every unexpired lock above, at or below the path. Stores `lock` if that
     * returns undefined; otherwise resolves to the conflicting lock.
     */
    grant(lock: Lock, conflict: (active: readonly Lock[]) => Lock | undefined): Promise<Lock | undefined>
    refresh(token: string, expires: Date): Promise<boolean>
    delete(token: string): Promise<boolean>
    sweep(now: Date): Promise<void>
  }
  readonly tasks: {
    all(): Promise<TaskRow[]>
    put(row: TaskRow): Promise<void>
    /** Deletes tasks and their items in one transaction. */
    delete(ids: readonly string[]): Promise<void>
    /**
     * In one transaction. Rows of deleted tasks are skipped. A 'failed' row changes only the error of an existing row.
     */
    putItems(rows: readonly TaskItemRow[]): Promise<void>
    /** Items of the members of a folder. */
    itemsIn(taskId: string, folder: Path): Promise<TaskItemRow[]>
    item(taskId: string, path: Path): Promise<TaskItemRow | undefined>
    /** Items with an error. */
    failed(taskId: string): Promise<TaskItemRow[]>
    deleteItem(taskId: string, path: Path): Promise<void>
    deleteItems(taskId: string): Promise<void>
    clearFailures(taskId: string): Promise<void>
  }
  /** Resumable uploads. They are orphaned when their task is deleted, and deleted with their storage. */
  readonly uploads: {
    of(taskId: string, path: Path): Promise<UploadRow | undefined>
    /** `exists` for a taken path of the same task, `not_found` for a deleted task. */
    insert(row: Omit<UploadRow, 'id'>): Promise<number>
    /** A missing upload is no error, here and below. */
    setToken(id: number, token: string): Promise<void>
    /** Orphans the upload: it belongs to no task any more. */
    orphan(id: number): Promise<void>
    orphanAll(taskId: string): Promise<void>
    /** Uploads without a task. */
    orphaned(): Promise<UploadRow[]>
    /** Tokens of the uploads that belong to a task. */
    tokens(): Promise<string[]>
    /** Ids of the tasks that have uploads. */
    tasksWithUploads(): Promise<string[]>
    delete(id: number): Promise<void>
  }
  /** Key-value state of drivers, by storage. */
  readonly driverState: {
    get(storageId: number, key: string): Promise<string | undefined>
    set(storageId: number, key: string, value: string | undefined): Promise<void>
  }
  /**
   * Calls `listener` within about 250 ms after another process has committed a change of the topic's rows, and again at
   * intervals while it rejects. Earlier changes of the topic by this process may be reported along with a foreign
   * commit. Returns an unsubscriber.
   */
  onForeignChange(topic: Topic, listener: () => void | Promise<void>): () => void
  close(): Promise<void>
}

/**
 * Rows that a component holds in memory, and reads again after another process has changed them. `accounts`: users, SSH
 * keys, app passwords and revoked tokens.
 */
export type Topic = 'accounts' | 'locks' | 'rules' | 'settings' | 'storages'

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

export type PropertyChange = { readonly set: Property } | { readonly remove: PropertyName }

export interface FolderRule {
  readonly id: number
  readonly path: Path
  readonly password: string
  readonly passwordSub: boolean
  /** All users may create folders and upload here. */
  readonly write: boolean
  readonly writeSub: boolean
  /** Lines of regular expressions, tested against base names. */
  readonly hide: string
  readonly hideSub: boolean
  readonly readme: string
  readonly readmeSub: boolean
  readonly header: string
  readonly headerSub: boolean
  /** User ids; empty: all users. */
  readonly readUsers: readonly number[]
  readonly readUsersSub: boolean
  readonly writeUsers: readonly number[]
  readonly writeUsersSub: boolean
}
