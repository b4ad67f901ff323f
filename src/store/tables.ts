/** The database as the core uses it: its tables, and what each of their methods promises. No SQL. */
import type { Path } from '../contract/path.js'
import type { SharedEngine } from './engine.js'
import type {
  UserRow,
  KeyRow,
  AppPasswordRow,
  ConsoleSessionRow,
  StorageRow,
  NodeRow,
  TaskRow,
  TaskItemRow,
  UploadRow,
  StoredAttributes,
  Intent,
  Topic,
  Lock,
  Property,
  PropertyChange,
  FolderRule,
  JournalRow,
} from './rows.js'

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
   * operation and deleted after it. Those that remain are resolved when their storage starts. Each belongs to a node, which
   * alone changes it.
   */
  readonly intents: {
    /** Those of all nodes. */
    all(): Promise<Intent[]>
    /** Those of this node. */
    ofStorage(storageId: number): Promise<Intent[]>
    /** Undefined also for an intent of another node. */
    get(id: number): Promise<Intent | undefined>
    insert(intent: Omit<Intent, 'id'>): Promise<number>
    /** Rejects with `unavailable` if this node does not own the intent any more. */
    setDisposable(id: number, disposable: boolean): Promise<void>
    /**
     * Applies an intent of kind 'move' in one transaction: moves rules, properties and attributes, deletes the intent,
     * and marks the backup of its target as deletable. Does nothing if the intent no longer exists. `mountPoint`: where the
     * storage is mounted.
     */
    apply(id: number, mountPoint: Path): Promise<void>
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
     * the update. A new `passwordTime` deletes the console sessions of the user.
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
  readonly consoleSessions: {
    all(): Promise<ConsoleSessionRow[]>
    insert(row: New<ConsoleSessionRow>): Promise<ConsoleSessionRow> // `exists` for a taken prefix
    touch(id: number, lastUsed: Date): Promise<void>
    delete(id: number): Promise<boolean>
    /** Deletes those that have expired. */
    sweep(now: Date): Promise<void>
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
    get(name: string): Promise<string | undefined>
    /** The secret of this name. If none exists, `candidate` is stored and returned; all processes get the same one. */
    obtain(name: string, candidate: string): Promise<string>
    /** Stores all of these in one transaction, in place of secrets of the same names. */
    replace(values: ReadonlyMap<string, string>): Promise<void>
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
     * In one transaction: passes to `conflict` every lock above, at or below the path that has not expired at `now`, by default the current time. Stores `lock` if that
     * returns undefined; otherwise resolves to the conflicting lock.
     */
    grant(lock: Lock, conflict: (active: readonly Lock[]) => Lock | undefined, now?: number): Promise<Lock | undefined>
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
    /** Uploads of this node without a task. */
    orphaned(): Promise<UploadRow[]>
    /** Tokens of the uploads that belong to a task. */
    tokens(): Promise<string[]>
    /** Ids of the tasks that have uploads. */
    tasksWithUploads(): Promise<string[]>
    delete(id: number): Promise<void>
  }
  /** The processes that share the database. Times are by its clock. */
  readonly nodes: {
    /** Those that are alive, and those that ended within the last 30 days. */
    all(): Promise<NodeRow[]>
    /** Adds this process, which is alive from now on. */
    join(node: Pick<NodeRow, 'id' | 'name' | 'version' | 'addresses'>): Promise<void>
    /** Sets the heartbeat to now. Resolves to it, as milliseconds since 1970; undefined if the node was ended. */
    renew(id: string): Promise<number | undefined>
    setAddresses(id: string, addresses: string): Promise<void>
    /**
     * Ends a node, and terminates its sessions of the database unless it is this process. `heartbeat`: only if it has
     * not changed. False if it had ended, or its heartbeat has changed.
     */
    end(id: string, heartbeat?: number): Promise<boolean>
    /** Makes this node the owner of all unfinished work that no living node owns. Returns the number of rows. */
    claim(id: string): Promise<number>
  }
  /** What one node at a time does for all of them. */
  readonly leases: {
    /** Whether this node holds the lease: it did before, or no living node does. */
    obtain(name: string): Promise<boolean>
    /** Does nothing if another node holds it. */
    release(name: string): Promise<void>
  }
  /** Whether several processes may use the database at once, so that each of them must be a node. */
  readonly isShared: boolean
  /** Locks and notices between these processes. Undefined unless the database is shared. */
  readonly shared: SharedEngine | undefined
  /** Key-value state of drivers, by storage. */
  readonly driverState: {
    get(storageId: number, key: string): Promise<string | undefined>
    set(storageId: number, key: string, value: string | undefined): Promise<void>
    /** Stores an entry of a journal of this node; without a value, deletes it. */
    setEntry(storageId: number, journal: string, entry: { readonly id: string; readonly value?: string }): Promise<void>
    /** The entries of this node, the oldest first. */
    entries(storageId: number, journal: string): Promise<JournalRow[]>
    /** Makes the entries of nodes that are not alive those of this node. Resolves to these, the oldest first. */
    takeOver(storageId: number, journal: string): Promise<JournalRow[]>
    /** If the key has a value, deletes it and adds entries of this node to the journal of that name; in one transaction. */
    deleteAndAdd(storageId: number, key: string, entries: readonly JournalRow[]): Promise<void>
  }
  /**
   * Calls `listener` within about 250 ms after another process has committed a change of the topic's rows, and again at
   * intervals while it rejects. Earlier changes of the topic by this process may be reported along with a foreign
   * commit. Returns an unsubscriber.
   */
  onForeignChange(topic: Topic, listener: () => void | Promise<void>): () => void
  /** Calls every listener of `onForeignChange`, as after changes that may have been missed. Rejects if one of them does. */
  notifyAll(): Promise<void>
  /** Resolves when the database has answered a query. Rejects with a GatewayError if it does not. */
  ping(): Promise<void>
  close(): Promise<void>
}
