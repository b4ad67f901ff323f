/** The database as the core uses it: its tables, and what each of their methods promises. No SQL. */
import type { Path } from '../base/path.js'
import type {
  AuditCursor,
  AuditEvent,
  AuditFilter,
  AuditPage,
  DeliveryRow,
  NewDelivery,
  NumberedEvent,
  WebhookRow,
} from './audit-rows.js'
import type { SharedEngine } from './engine.js'
import type { Installation } from './installation.js'
import type {
  Role,
  UserRow,
  KeyRow,
  AppPasswordRow,
  ConsoleSessionRow,
  SignInAge,
  SignInEvent,
  SignInFilter,
  SignInKind,
  SignInParty,
  StorageRow,
  NodeRow,
  TaskRow,
  UnfinishedTasks,
  TaskItemRow,
  TaskAction,
  TaskRequestRow,
  UploadRow,
  StoredAttributes,
  Intent,
  Topic,
  Lock,
  Property,
  PropertyChange,
  PropertyLimits,
  FolderRule,
  Grant,
  GroupMember,
  GroupRow,
  JournalRow,
  RunningMove,
  ShareRoot,
  ShareRow,
  ShareUse,
  TrafficRow,
  TrafficSums,
  Visitor,
} from './rows.js'

type New<Row> = Omit<Row, 'id'>

/**
 * Calls `read` where other processes use the database: they may have stored rows that this one does not have in memory
 * yet. Returns undefined, without a call, where there are no other processes.
 */
export type OfOthers = <T>(read: () => Promise<T>) => Promise<T> | undefined

/** Rows that are about a path, and follow what is there. */
export interface PathRows<Row extends { readonly path: Path }> {
  all(): Promise<Row[]>
  insert(row: New<Row>): Promise<Row> // `exists` for a taken path, of grants for one that the same subject has
  update(id: number, changes: Partial<New<Row>>): Promise<Row>
  delete(id: number): Promise<boolean>
  /**
   * Moves the rows at or below `from` to `to`. A row that has the new path of a moved one, and of grants the same
   * subject, is replaced; others are unchanged.
   */
  move(from: Path, to: Path): Promise<void>
  /** What was at `path` and below it is removed: does to the rows what is written in `path-table.ts`. */
  markRemoved(path: Path): Promise<void>
}

/** What is stored with a group; undefined fields are unchanged. */
export interface GroupContents {
  readonly members?: readonly number[] | undefined
  readonly grants?: readonly Pick<Grant, 'path' | 'allow' | 'deny'>[] | undefined
}

/** What is stored with a user; undefined fields are unchanged. */
export interface UserContents extends Pick<GroupContents, 'grants'> {
  /** The ids of the user's groups. */
  readonly groups?: readonly number[] | undefined
}

export interface SignInsOf {
  readonly party: SignInParty
  readonly ages: readonly SignInAge[]
}

/** An attempt to sign in whose outcome is pending. */
export interface SignInAttempt {
  /** Marks the attempt as failed now. */
  fail(): Promise<unknown>
  /** Deletes the attempt, because it has succeeded. */
  drop(): Promise<unknown>
}

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
     * Applies all changes in one transaction. `no_space` if the properties of `path`, or those of the user, would
     * exceed a limit.
     */
    change(
      path: Path,
      changes: readonly PropertyChange[],
      userId?: number,
      limits?: Partial<PropertyLimits>,
    ): Promise<void>
    /** Rejects with `no_space` if the properties of the user have reached the limit. */
    assertRoom(userId: number, limit: number): Promise<void>
    move(from: Path, to: Path): Promise<void>
    /** The copies are properties of the user, even above the limit. */
    copy(from: Path, to: Path, deep: boolean, userId?: number): Promise<void>
    /**
     * Pages of the paths at and below `path` that have properties. Each page reflects the database at the time it is
     * read.
     */
    within(path: Path): AsyncIterable<readonly Path[]>
    /** Whether any exist at or below one of these paths. */
    hasWithin(...paths: readonly Path[]): Promise<boolean>
    /**
     * Moves the properties of each `from`, excluding those of its descendants, to its `to`, replacing the properties
     * there; in one transaction. `keep`: copies them, as `copy` does.
     */
    transfer(pairs: readonly (readonly [from: Path, to: Path])[], keep: boolean, userId?: number): Promise<void>
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
    /** As `of`, for all recorded children of a folder, by path. */
    ofChildren(folder: Path): Promise<Map<Path, Date>>
    /** Records a folder. Without `modified`, an existing record is unchanged and a new one gets the current time. */
    put(path: Path, modified?: Date): Promise<void>
    move(from: Path, to: Path): Promise<void>
    delete(path: Path): Promise<void> // with everything below
  }
  /**
   * The intent log: operations of a backend that the rows may not reflect yet. An intent is written before the
   * operation and deleted after it. Those that remain are resolved when their storage starts. Each belongs to a node,
   * which alone changes it.
   */
  readonly intents: {
    /** The intents of all nodes. */
    all(): Promise<Intent[]>
    /** The intents of this node on a storage. */
    ofStorage(storageId: number): Promise<Intent[]>
    /** The removals on this storage, of all nodes. */
    removals(storageId: number): Promise<Intent[]>
    /**
     * Deletes the removals, of all nodes, whose target is `to`, a path of the whole tree, or below it, and those of the
     * folder `from` and of folders below it.
     */
    endRemovals(to: Path, from?: Pick<Intent, 'storageId' | 'from'>): Promise<void>
    /**
     * The intents of other nodes that may change what exists at the path or below it: moves to it, and backups of what
     * was there.
     */
    ofOthersAt(storageId: number, path: Path): Promise<Intent[]>
    /** Makes this node the owner of an intent. */
    take(id: number): Promise<void>
    /** Marks a backup, also one of another node, as never to be restored. */
    supersede(id: number): Promise<void>
    /** Undefined also for an intent of another node. */
    get(id: number): Promise<Intent | undefined>
    insert(intent: Omit<Intent, 'id'>): Promise<number>
    /** Rejects with `unavailable` if this node does not own the intent any more. */
    setDisposable(id: number, disposable: boolean): Promise<void>
    /**
     * Applies an intent of kind 'move' in one transaction: moves rules, properties and attributes, deletes the intent,
     * and marks the backup of its target as deletable. Does nothing if the intent no longer exists. `mountPoint`: where
     * the storage is mounted.
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
   * Some of the tables, with writes that survive the end of the process; but a power failure may lose those after the
   * latest write outside of `relaxed`.
   */
  readonly relaxed: FileRecords & { readonly tasks: Pick<Store['tasks'], 'setProgress'> }
  readonly users: {
    all(): Promise<UserRow[]>
    /** Adds a user in one transaction. `exists` for a taken name, `not_found` if a group does not exist. */
    insert(row: New<UserRow>, contents?: UserContents): Promise<UserRow>
    /**
     * Inserts what `make` returns unless a user has this role, in one transaction, during which no other process does.
     * An error of `make` cancels it. `exists` for a taken name.
     */
    addFirst(role: Role, make: () => New<UserRow>): Promise<void>
    /**
     * Updates the row with what `decide` returns for the stored row, in one transaction. An error of `decide` cancels
     * the update. A new `passwordTime` deletes the console sessions of the user. `not_found`, also if a group does not
     * exist, `exists`.
     */
    change(id: number, decide: (stored: UserRow) => Partial<New<UserRow>>, contents?: UserContents): Promise<UserRow>
    /** Marks the one-time code of this time step as used: false if that step, or a later one, was used before. */
    useOtpStep(id: number, step: number): Promise<boolean>
    delete(id: number): Promise<boolean>
  }
  readonly keys: {
    all(): Promise<KeyRow[]>
    /**
     * Inserts the row, unless the user has `max` of them; then resolves to undefined. `exists` for a taken title of the
     * same user.
     */
    add(row: New<KeyRow>, max: number): Promise<KeyRow | undefined>
    touch(id: number, lastUsed: Date): Promise<void>
    delete(id: number): Promise<boolean>
  }
  /**
   * Recovery codes of two-step verification, as digests. Deleted when the secret of their user changes, and with the
   * user.
   */
  readonly recoveryCodes: {
    count(userId: number): Promise<number>
    /** Replaces all codes of the user in one transaction. False, without a change, if the user has another secret. */
    replace(userId: number, otpSecret: string, digests: readonly string[]): Promise<boolean>
    /** Deletes a code: false if there is none. Of concurrent calls, one resolves to true. */
    use(userId: number, digest: string): Promise<boolean>
  }
  readonly appPasswords: {
    all(): Promise<AppPasswordRow[]>
    /**
     * Inserts the row, unless the user has `max` of them; then resolves to undefined. `exists` for a taken prefix, or a
     * taken name of the same user.
     */
    add(row: New<AppPasswordRow>, max: number): Promise<AppPasswordRow | undefined>
    touch(id: number, lastUsed: Date): Promise<void>
    delete(id: number): Promise<boolean>
  }
  readonly consoleSessions: {
    all(): Promise<ConsoleSessionRow[]>
    /**
     * Inserts the row, and deletes the least recently used ones of the user beyond `max`. Resolves to the row and their
     * ids. `exists` for a taken prefix.
     */
    add(
      row: New<ConsoleSessionRow>,
      max: number,
    ): Promise<{ readonly row: ConsoleSessionRow; readonly ended: readonly number[] }>
    /** False if the session has ended. */
    confirm(id: number, confirmed: Date): Promise<boolean>
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
    /** Deletes a storage. Returns the tokens of its uploads, of all nodes; undefined if there is no such storage. */
    deleteWithUploads(id: number): Promise<string[] | undefined>
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
    /** Stores all of these secrets in one transaction, in place of those of the same names. */
    replace(values: ReadonlyMap<string, string>): Promise<void>
  }
  readonly rules: PathRows<FolderRule>
  readonly groups: {
    all(): Promise<GroupRow[]>
    members(): Promise<GroupMember[]>
    /** Adds a group in one transaction. `exists` for a taken name, `not_found` if a member does not exist. */
    insert(row: New<GroupRow>, contents?: GroupContents): Promise<GroupRow>
    /**
     * Changes a group in one transaction. `exists` as `insert`, `not_found` if a member, or the group, does not exist.
     */
    update(id: number, changes: Partial<New<GroupRow>>, contents?: GroupContents): Promise<GroupRow>
    delete(id: number): Promise<boolean> // with its members and grants
    /** Replaces the members in one transaction. `not_found` if a user, or the group, does not exist. */
    setMembers(groupId: number, userIds: readonly number[]): Promise<void>
  }
  /** The grants, which are deleted with their user or group. */
  readonly grants: PathRows<Grant> & {
    /**
     * Replaces the grants of a user or a group in one transaction. One whose path the subject has keeps its id.
     * `not_found` if the subject does not exist.
     */
    replace(
      subject: Pick<Grant, 'userId' | 'groupId'>,
      grants: readonly Pick<Grant, 'path' | 'allow' | 'deny'>[],
    ): Promise<void>
  }
  /** The shares, which are deleted with their creator. */
  readonly shares: {
    all(): Promise<ShareRow[]>
    /**
     * Adds a share with roots at these paths in one transaction. `exists` for a taken id, `not_found` for an unknown
     * creator.
     */
    insert(row: ShareRow, roots: readonly Path[], visits: number): Promise<void>
    /**
     * Changes a share in one transaction. `roots`: the paths of all roots; one that has a root of the share already
     * keeps it. Absent fields are unchanged. `not_found`, and `exists` for a new id that is taken.
     */
    update(
      id: string,
      changes: Partial<ShareRow>,
      roots: readonly Path[] | undefined,
      visits: number | undefined,
    ): Promise<void>
    /** Deletes a share with its roots and visits. False if it does not exist. */
    delete(id: string): Promise<boolean>
    /** How often these shares were used, by id. */
    use(ids: readonly string[]): Promise<ReadonlyMap<string, ShareUse>>
  }
  /** The files and folders of shares. Deleted with their share. */
  readonly shareRoots: PathRows<ShareRoot>
  /** The visits to shares. Times are by the clock of the database. */
  readonly shareVisits: {
    /** Whether the visitor is in a visit that began within the last `time` milliseconds. */
    isIn(shareId: string, visitor: Visitor, time: number): Promise<boolean>
    /**
     * As `isIn`; begins a visit otherwise, and counts it, if the share may have one more. Undefined if it may not. In
     * one transaction, so that of concurrent calls none passes the limit. While 10,000 visits of a share are stored,
     * or 100,000 of one with a limit, further ones are counted and not stored: each request then begins another one.
     */
    enter(shareId: string, visitor: Visitor, time: number): Promise<'begun' | 'in' | undefined>
    /** Deletes the visits that began more than `time` milliseconds ago. */
    sweep(time: number): Promise<void>
  }
  /**
   * What running uploads of visitors have reserved of the limits of their shares. A reservation counts as long as the
   * node that has made it is alive. What was stored is counted in the use of the share.
   */
  readonly shareUploads: {
    /** Resolves to the id of the reservation; undefined if the limits do not allow it. `not_found`: no such share. */
    reserve(shareId: string, bytes: number, files: number): Promise<number | undefined>
    /**
     * Reserves more bytes: as many of `wished` as the limits allow, if those are at least `needed`. Resolves to their
     * number; undefined if they are fewer. `not_found` if the share was deleted, or this node was taken for dead.
     */
    extend(id: number, needed: number, wished: number): Promise<number | undefined>
    /** Whether a running upload has claimed this path of the whole tree, folded. */
    isClaimed(path: string): Promise<boolean>
    /** Claims a path for an upload, instead of the one before. False if another one has claimed it. */
    claim(id: number, path: string): Promise<boolean>
    /** Counts what was stored, and ends the reservation. */
    finish(id: number, bytes: number, files: number): Promise<void>
    /** Ends the reservation of an upload that has failed. */
    release(id: number): Promise<void>
  }
  /** Moves item by item of what has rules, grants or shares: each is told to the other nodes before its first item. */
  readonly moves: {
    ofOthers(): Promise<RunningMove[]>
    /** Resolves to the id. */
    begin(move: New<RunningMove>): Promise<number>
    end(id: number): Promise<void>
  }
  /** What `installation.ts` says. `isFirst`: whether a first run makes this storage. */
  readonly installation: {
    assertNew(isFirst: (row: StorageRow) => boolean): Promise<void>
    replace(by: Installation, isFirst: (row: StorageRow) => boolean): Promise<void>
  }
  readonly audit: {
    /**
     * Stores the events that are not stored yet, and what `deliveriesOf` returns for these, in one transaction.
     * Deliveries to hooks that do not exist any more are omitted.
     */
    insert(
      events: readonly AuditEvent[],
      deliveriesOf?: (events: readonly AuditEvent[]) => readonly NewDelivery[],
    ): Promise<void>
    /** At most `limit` events, the newest first, that are older than `before`. */
    list(filter: AuditFilter, limit: number, before?: AuditCursor): Promise<AuditPage>
    /** At most `limit` events with higher numbers, in the order of these, for who follows what happens. */
    after(number: number, filter: AuditFilter, limit: number): Promise<readonly NumberedEvent[]>
    /** Undefined if there is no event of this id. */
    get(id: string): Promise<NumberedEvent | undefined>
    /**
     * The moves that were done to one of these paths before `before`, newest first. For the history of what is in a
     * folder that was moved.
     */
    movesTo(paths: readonly Path[], limit: number, before?: AuditCursor): Promise<readonly AuditEvent[]>
    /** The highest number of an event; 0 if there is none. */
    last(): Promise<number>
    /**
     * Deletes the events before this time in milliseconds since 1970, and the oldest beyond about `maxBytes`, in short
     * transactions with a `pause` after each. Resolves to their number.
     */
    sweep(before: number, maxBytes: number, pause: () => Promise<unknown>): Promise<number>
  }
  /** Writes are as those of `relaxed`. */
  readonly traffic: {
    /** The sums of the periods from `start` on, by their starts. */
    since(period: TrafficRow['period'], start: number): Promise<ReadonlyMap<number, TrafficSums>>
    /** Adds the sums to what is stored of the same periods, and deletes those before `oldest`. */
    add(rows: readonly TrafficRow[], oldest: Readonly<Record<TrafficRow['period'], number>>): Promise<void>
  }
  readonly webhooks: {
    all(): Promise<WebhookRow[]>
    insert(row: New<WebhookRow>): Promise<WebhookRow> // `exists` for a taken name
    /** Deliveries of a hook that is switched on begin anew. `not_found`, and `exists` for a taken name. */
    update(id: number, changes: Partial<New<WebhookRow>>): Promise<WebhookRow>
    /** False if it is off, or does not exist. */
    switchOff(id: number, reason: string): Promise<boolean>
    /** With its deliveries. */
    delete(id: number): Promise<boolean>
  }
  /**
   * What webhooks still have to get, and what they could not be given. `audit.insert` adds to it. Writes are as those
   * of `relaxed`.
   */
  readonly webhookDeliveries: {
    /** The deliveries of one hook that have not failed, in the order of `nextAt`. */
    next(hookId: number, limit: number): Promise<DeliveryRow[]>
    /** The latest of those that were attempted before, and are due again at `now`. */
    repeated(hookId: number, now: number): Promise<DeliveryRow | undefined>
    /** The deliveries with ids above `after`, in their order: those that have failed, or all others. */
    list(
      hookId: number,
      failed: boolean,
      page: { readonly after: number; readonly limit: number },
    ): Promise<DeliveryRow[]>
    /** By hook. */
    counts(): Promise<ReadonlyMap<number, { readonly waiting: number; readonly failed: number }>>
    /** Stores how an attempt has failed. Does nothing if there is no such delivery any more. */
    fail(id: number, outcome: Omit<DeliveryRow, 'id' | 'hookId' | 'eventId' | 'body'>): Promise<void>
    delete(id: number): Promise<void>
    /** Begins deliveries anew: those of these events, by default those that have failed. Resolves to their events. */
    restart(hookId: number, eventIds?: readonly string[]): Promise<ReadonlySet<string>>
    /** Adds deliveries of these events, and begins those anew that are there. In one transaction. */
    replay(hookId: number, rows: readonly Pick<NewDelivery, 'eventId' | 'body'>[]): Promise<void>
  }
  readonly revokedTokens: {
    /** Tokens that have not expired yet: when they expire, by id. */
    all(): Promise<Map<string, Date>>
    insert(id: string, expires: Date): Promise<void>
    sweep(now: Date): Promise<void>
  }
  /** Attempts to sign in. Times are by the clock of the database. */
  readonly signIns: {
    /** The newest events that match, newest first. */
    newest(filter: SignInFilter, limit: number): Promise<SignInAge[]>
    /**
     * In one transaction that excludes other attempts: records an event whose outcome is pending if `check` allows it,
     * and resolves to it. `check` can read as `newest` does; an error of it rejects, and nothing is recorded.
     */
    attempt(
      event: SignInEvent,
      check: (newest: (filter: SignInFilter, limit: number) => Promise<SignInAge[]>) => Promise<boolean>,
    ): Promise<SignInAttempt | undefined>
    record(event: SignInEvent): Promise<void>
    /** Records an event, and deletes the earlier ones that are equal. */
    replace(event: SignInEvent): Promise<void>
    /**
     * The newest of the latest events of these kinds, newest first, of each party that they name by these fields. The
     * latest are a number that is limited.
     */
    newestOfEach(kinds: readonly SignInKind[], fields: readonly (keyof SignInParty)[]): Promise<SignInsOf[]>
    /**
     * Deletes the events that match. Processes that share the database read the accounts again, as after a change of
     * them.
     */
    forget(filter: SignInFilter): Promise<void>
    /** Deletes the events of these kinds that are older than `age` milliseconds. */
    sweep(kinds: readonly SignInKind[], age: number): Promise<void>
  }
  readonly locks: {
    /** An owner of more than `maxOwner` characters is read as empty. */
    all(maxOwner?: number): Promise<Lock[]>
    /** Undefined if no lock has this token. `maxOwner` as in `all`. */
    get(token: string, maxOwner?: number): Promise<Lock | undefined>
    /**
     * In one transaction: passes to `conflict` every lock above, at or below the path that has not expired at `now`, by
     * default the current time. Stores `lock` if that returns undefined; otherwise resolves to the conflicting lock.
     */
    grant(lock: Lock, conflict: (active: readonly Lock[]) => Lock | undefined, now?: number): Promise<Lock | undefined>
    refresh(token: string, expires: Date): Promise<boolean>
    delete(token: string): Promise<boolean>
    sweep(now: Date): Promise<void>
  }
  /** Each task belongs to a node, which alone changes it and its items. */
  readonly tasks: {
    /** The tasks of all nodes, in the order of their creation. */
    all(which?: Partial<Pick<TaskRow, 'kind' | 'userId'>>): Promise<TaskRow[]>
    /** The tasks of this node, in the order of their creation. */
    owned(): Promise<TaskRow[]>
    get(id: string): Promise<TaskRow | undefined>
    /** The unfinished tasks of each user who has some, on all nodes. */
    unfinished(): Promise<UnfinishedTasks[]>
    /** When the task ended after which `count` others ended, on all nodes; undefined if there is none. */
    endOfOlder(count: number): Promise<Date | undefined>
    /** Adds a task of this node. */
    insert(row: TaskRow): Promise<void>
    /** False if this node does not own the task, or it was deleted. */
    update(row: TaskRow): Promise<boolean>
    /** Stores the progress of a task that runs on this node. Does nothing for any other. */
    setProgress(row: Pick<TaskRow, 'id' | 'totalBytes' | 'doneBytes' | 'phase'>): Promise<void>
    /** Deletes tasks of this node and their items in one transaction. Returns the number of deleted tasks. */
    delete(ids: readonly string[]): Promise<number>
    /**
     * Stores items in one transaction. A 'failed' row changes only the error of an existing row. Rows of tasks that
     * were deleted, or that this node does not own, are skipped. Resolves to the ids of these tasks.
     */
    putItems(rows: readonly TaskItemRow[]): Promise<ReadonlySet<string>>
    /** Items of the members of a folder. */
    itemsIn(taskId: string, folder: Path): Promise<TaskItemRow[]>
    item(taskId: string, path: Path): Promise<TaskItemRow | undefined>
    /** Items with an error. */
    failed(taskId: string): Promise<TaskItemRow[]>
    deleteItem(taskId: string, path: Path): Promise<void>
    deleteItems(taskId: string): Promise<void>
    clearFailures(taskId: string): Promise<void>
    /** Adds a request for each of the tasks that exist. */
    request(taskIds: readonly string[], action: TaskAction): Promise<void>
    /** The requests for tasks of this node, in the order in which they were added. */
    requests(): Promise<TaskRequestRow[]>
    /** Whether such a request for one of the tasks was not served yet. */
    hasRequests(taskIds: readonly string[], action: TaskAction): Promise<boolean>
    /** Deletes a request that was served. Those for a task are also deleted with it. */
    deleteRequest(id: number): Promise<void>
  }
  /**
   * Resumable uploads. They are orphaned when their task is deleted, and deleted with their storage. Each belongs to a
   * node, which alone changes it.
   */
  readonly uploads: {
    of(taskId: string, path: Path): Promise<UploadRow | undefined>
    /**
     * `exists` for a taken path of the same task, `not_found` for a task that was deleted or that this node does not
     * own.
     */
    insert(row: Omit<UploadRow, 'id'>): Promise<number>
    /** A missing upload, or one of another node, is no error, here and below. */
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
    /** The nodes that are alive, and those that ended within the last 30 days. */
    all(): Promise<NodeRow[]>
    /**
     * Adds this process, which is alive from now on. `unsupported` if this program cannot use the database any more.
     */
    join(node: Pick<NodeRow, 'id' | 'name' | 'version' | 'addresses'>): Promise<void>
    /**
     * Sets the heartbeat to now, and what the node works on. Resolves to the heartbeat, as milliseconds since 1970;
     * undefined if the node was ended.
     */
    renew(id: string, working: string): Promise<number | undefined>
    setAddresses(id: string, addresses: string): Promise<void>
    /**
     * Ends a node, and terminates its sessions of the database unless it is this process. `heartbeat`: only if it has
     * not changed. False if it had ended, or its heartbeat has changed.
     */
    end(id: string, heartbeat?: number): Promise<boolean>
    /**
     * Makes this node the owner of all unfinished work that no living node owns, and ends the moves of such nodes.
     * Returns the number of rows that it owns now.
     */
    claim(id: string): Promise<number>
  }
  /** What one node at a time does for all of them. */
  readonly leases: {
    /** Whether this node holds the lease: it did before, or no living node does. */
    obtain(name: string): Promise<boolean>
    /** Does nothing if another node holds it. */
    release(name: string): Promise<void>
  }
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
    /**
     * If the key has a value, deletes it and adds entries of this node to the journal of that name; in one transaction.
     */
    deleteAndAdd(storageId: number, key: string, entries: readonly JournalRow[]): Promise<void>
  }
  /**
   * Calls `listener` within about 250 ms after another process has committed a change of the topic's rows, and again at
   * intervals while it rejects. Earlier changes of the topic by this process may be reported along with a foreign
   * commit. Returns an unsubscriber.
   */
  onForeignChange(topic: Topic, listener: () => void | Promise<void>): () => void
  /**
   * Calls every listener of `onForeignChange`, as after changes that may have been missed. Rejects if one of them does.
   */
  notifyAll(): Promise<void>
  /** Resolves when the database has answered a query. Rejects with a GatewayError if it does not. */
  ping(): Promise<void>
  close(): Promise<void>
}
