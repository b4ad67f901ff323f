/** The rows of the database as the core sees them: names and types of TypeScript, not of SQL. */
import type { Lock } from '../locks.js'
import type { Path } from '../path.js'
import type { Property, PropertyChange } from '../properties.js'
import type { FolderRule } from '../rules.js'

export interface UserRow {
  readonly id: number
  readonly username: string
  /** scrypt over the wire's static hash, with its parameters and salt. */
  readonly passwordHash: string
  /**
   * Unix seconds of what last ended this account's sessions: a new password, a new name, or being disabled; 0 for never.
   * Part of every token, and never goes back.
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

/** A password for one program of an account, at some doors. */
export interface AppPasswordRow {
  readonly id: number
  readonly userId: number
  /** What its owner knows it by. */
  readonly name: string
  /** Its readable beginning, by which it is found; no other one has it. */
  readonly prefix: string
  /** SHA-256 of the whole, in hexadecimal. */
  readonly digest: string
  readonly doors: readonly AppPasswordDoor[]
  readonly readOnly: boolean
  readonly added: Date
  /** Undefined while it was never used. */
  readonly lastUsed: Date | undefined
}
export type AppPasswordDoor = 'webdav' | 'sftp'

/** A storage as the admin configured it. */
export interface StorageRow {
  readonly id: number
  readonly mountPath: Path
  readonly order: number
  readonly driver: string
  /** Minutes. */
  readonly cacheExpiration: number
  readonly customCachePolicies: string
  /** `work`, `disabled`, empty, or the text of what went wrong. */
  readonly status: string
  /** JSON text of the driver's own options. */
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
  /** Of the user, as they were called and what they were when they asked. */
  readonly username: string
  readonly role: string
  readonly state: string
  readonly status: string
  readonly error: string
  readonly totalBytes: number
  readonly doneBytes: number
  /** JSON text of what is to be done. */
  readonly plan: string
  /** Runs since somebody asked for it, or asked again. */
  readonly tries: number
  readonly created: Date
  /** Of its first run. */
  readonly started: Date | undefined
  readonly ended: Date | undefined
}

/** What became of one thing that a task copied or moved. */
export interface TaskItemRow {
  readonly taskId: string
  /** Of the source, in the whole tree. */
  readonly path: Path
  /**
   * 'begun': a folder whose copy this task makes, or of which it is known what the old target had beyond the copy. 'copied': its copy stands and was verified, and is another thing than the source for
   * sure. 'replaced': the same, but for that: the copy took the place of something of which nobody can tell. 'surplus': nothing of this name is copied, and what the old target had under it
   * goes when all the others are.
   */
  readonly state: 'begun' | 'copied' | 'replaced' | 'surplus' | 'failed'
  /** The state in which the source was copied, in the words of `stateOf`. */
  readonly source: string
  /** The state of the copy when it was verified, in the same words; empty where nobody noted it. */
  readonly copy: string
  readonly size: number
  readonly error: string
}

/** A large file on its way to a storage, of which the driver keeps what has arrived. */
export interface UploadRow {
  readonly id: number
  /** Undefined: it is to be let go of. */
  readonly taskId: string | undefined
  /** Of the source, in the whole tree; of an upload, where it goes. */
  readonly path: Path
  /** The state of the source that its bytes are of. */
  readonly source: string
  readonly storageId: number
  readonly token: string
}

/** Attributes that a backend could not keep. */
export interface RememberedAttributes {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
}

/** Paths are those of the storage, and it goes with the storage. */
export interface Intent {
  readonly id: number
  readonly storageId: number
  /** 'move': `from` becomes `to`. 'aside': what stood at `from` waits at `to` until something else took its place. */
  readonly kind: 'move' | 'aside'
  readonly from: Path
  readonly to: Path
  /** Of what waits at `to`: it may go where something stands at `from`. */
  readonly spare: boolean
}

type New<Row> = Omit<Row, 'id'>

/** What is recorded about files: tables that may be written once for every file. */
export interface FileRecords {
  /** Keyed by path of the whole tree. */
  readonly properties: {
    of(path: Path): Promise<Property[]>
    /** Of all children of a folder that have any, by path; of some of them where `which` names them. */
    ofChildren(folder: Path, which?: readonly Path[]): Promise<Map<Path, Property[]>>
    /** Characters that those of all children take up. */
    sizeOfChildren(folder: Path): Promise<number>
    /** In one transaction. `no_space` where they would take up more than `largestProperties`. */
    change(path: Path, changes: readonly PropertyChange[]): Promise<void>
    move(from: Path, to: Path): Promise<void>
    copy(from: Path, to: Path, deep: boolean): Promise<void>
    /** Paths at and below `path` that have any, in pages, by what is stored when each page is read. */
    within(path: Path): AsyncIterable<readonly Path[]>
    /** Whether there are any at or below one of these paths. */
    hasWithin(...paths: readonly Path[]): Promise<boolean>
    /**
     * What each of these paths has, without what lies below it, replaces what its new path has; in one transaction. `keep`: the
     * old paths have it too.
     */
    follow(pairs: readonly (readonly [from: Path, to: Path])[], keep: boolean): Promise<void>
    delete(path: Path): Promise<void> // with everything below
  }
  /** Modification times and modes of files whose backend keeps none. Follows moves like properties do. */
  readonly attributes: {
    of(path: Path): Promise<RememberedAttributes | undefined>
    ofChildren(folder: Path): Promise<Map<Path, RememberedAttributes>>
    set(path: Path, to: RememberedAttributes): Promise<void>
    /** Whether there are any at or below one of these paths. */
    hasWithin(...paths: readonly Path[]): Promise<boolean>
    move(from: Path, to: Path): Promise<void>
    copy(from: Path, to: Path): Promise<void>
    delete(path: Path): Promise<void>
  }
  /** Folders of storages whose backend has none without something in them. */
  readonly folders: {
    /** When it was made or last changed; undefined for one that is not kept. */
    of(path: Path): Promise<Date | undefined>
    /** Of all children of a folder, by path. */
    ofChildren(folder: Path): Promise<Map<Path, Date>>
    /** What `modified` leaves out stays as it was. */
    put(path: Path, modified?: Date): Promise<void>
    move(from: Path, to: Path): Promise<void>
    delete(path: Path): Promise<void> // with everything below
  }
  /**
   * What a backend may have done and the rows have not followed yet: written before, deleted after, settled
   * when its storage starts.
   */
  readonly intents: {
    all(): Promise<Intent[]>
    ofStorage(storageId: number): Promise<Intent[]>
    get(id: number): Promise<Intent | undefined>
    insert(intent: Omit<Intent, 'id'>): Promise<number>
    setSpare(id: number, spare: boolean): Promise<void>
    /**
     * Of kind 'move': moves rules, properties and attributes, drops the intent, and makes spare what stepped aside for it, in one
     * transaction. `mount`: where the storage is seen.
     */
    carryOut(id: number, mount: Path): Promise<void>
    drop(id: number): Promise<void>
  }
}

/**
 * What the core asks of the database. Every write resolves when it is committed, and outlives a power cut; only those of
 * `relaxed` may be undone by one.
 */
export interface Store extends FileRecords {
  /**
   * The same tables. The end of the process undoes no write, but a power cut may undo the last ones, up to the latest write
   * outside of `relaxed`.
   */
  readonly relaxed: FileRecords
  readonly users: {
    all(): Promise<UserRow[]>
    insert(row: New<UserRow>): Promise<UserRow> // `exists` for a taken name
    update(id: number, changes: Partial<New<UserRow>>): Promise<UserRow> // `not_found`, `exists`
    /** An update decided from what is stored, in one transaction; what `decide` throws refuses it. */
    change(id: number, decide: (stored: UserRow) => Partial<New<UserRow>>): Promise<UserRow>
    /** Uses up the one-time code of this time step: false where that step, or a later one, was used before. */
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
  /** Stored values alone; what a key means is in settings.ts. */
  readonly settings: {
    all(): Promise<Map<string, string>>
    set(values: ReadonlyMap<string, string>): Promise<void> // in one transaction
    delete(key: string): Promise<boolean>
  }
  /** What no API ever shows. */
  readonly secrets: {
    /** The secret of this name. `candidate` becomes it where there is none yet, for all processes alike. */
    obtain(name: string, candidate: string): Promise<string>
  }
  readonly rules: {
    all(): Promise<FolderRule[]>
    insert(row: New<FolderRule>): Promise<FolderRule>
    update(id: number, changes: Partial<New<FolderRule>>): Promise<FolderRule>
    delete(id: number): Promise<boolean>
    /** Rules at or below `from` go along to `to`. */
    move(from: Path, to: Path): Promise<void>
  }
  readonly revokedTokens: {
    /** Those that have not expired yet. */
    all(): Promise<Map<string, Date>>
    insert(id: string, expires: Date): Promise<void>
    sweep(now: Date): Promise<void>
  }
  readonly locks: {
    all(): Promise<Lock[]>
    /** Decided in one transaction: `conflict` sees every lock that still stands; what it returns refuses the grant. */
    grant(lock: Lock, conflict: (standing: readonly Lock[]) => Lock | undefined): Promise<Lock | undefined>
    refresh(token: string, expires: Date): Promise<boolean>
    delete(token: string): Promise<boolean>
    deleteWithin(path: Path): Promise<void>
    sweep(now: Date): Promise<void>
  }
  readonly tasks: {
    all(): Promise<TaskRow[]>
    put(row: TaskRow): Promise<void>
    /** With their items, in one transaction. */
    delete(ids: readonly string[]): Promise<void>
    /** In one transaction. Those of tasks that are gone are passed over. One that failed leaves what is known of it, but for its error. */
    putItems(rows: readonly TaskItemRow[]): Promise<void>
    /** Of the members of a folder. */
    itemsIn(taskId: string, folder: Path): Promise<TaskItemRow[]>
    item(taskId: string, path: Path): Promise<TaskItemRow | undefined>
    /** Those with an error. */
    failed(taskId: string): Promise<TaskItemRow[]>
    forgetItem(taskId: string, path: Path): Promise<void>
    forgetItems(taskId: string): Promise<void>
    forgetFailures(taskId: string): Promise<void>
  }
  /** Large files on their way. Those of a task that is deleted are loose then; those of a storage go with it. */
  readonly uploads: {
    of(taskId: string, path: Path): Promise<UploadRow | undefined>
    insert(row: Omit<UploadRow, 'id'>): Promise<number> // `exists` for a taken path of the same task, `not_found` for a task that is gone
    /** One that is gone is no error, here and below. */
    setToken(id: number, token: string): Promise<void>
    /** It is of no task any more. */
    release(id: number): Promise<void>
    releaseAll(taskId: string): Promise<void>
    /** Those of no task. */
    loose(): Promise<UploadRow[]>
    /** Of those that are of a task. */
    tokens(): Promise<string[]>
    /** The tasks that any are of. */
    owners(): Promise<string[]>
    delete(id: number): Promise<void>
  }
  /** A driver's own state, by storage. */
  readonly driverState: {
    get(storageId: number, key: string): Promise<string | undefined>
    set(storageId: number, key: string, value: string | undefined): Promise<void>
    deleteAll(storageId: number): Promise<void>
  }
  /**
   * `listener` is called after another process has changed anything, within 250 ms; again and again while it rejects.
   * Returns an unsubscriber.
   */
  onForeignChange(listener: () => void | Promise<void>): () => void
  close(): Promise<void>
}
