/** What a driver may use outside its own modules. */
import type { Agent } from 'node:http'
import type { CallOptions } from './call-options.js'
import type { Usage } from './capabilities.js'
import type { Driver } from './driver.js'
import type { DriverLog } from '../base/log.js'
import type { Path } from '../base/path.js'

/** The environment of a driver: everything it may use outside its own modules. */
export interface DriverEnv {
  readonly log: DriverLog
  /** Aborts when the storage is unmounted. */
  readonly signal: AbortSignal
  /** The running process. Names of staged files contain its name, so that a later run can remove orphaned ones. */
  readonly instance: Instance
  readonly own: GatewayFolders
  /** Whether the storage may run on other machines too. A folder of this machine may be another one there. */
  readonly spansMachines: boolean
  /**
   * Stores changed options that mean the same as those that the storage was opened with, such as a password in another
   * form. The other nodes then open the storage again with them; if an admin or another node has changed the options
   * meanwhile, nothing is stored. Credentials that the backend has renewed belong into `state`: see there.
   */
  save(options: Readonly<Record<string, unknown>>): Promise<void>
  /**
   * Persistent key-value store of this storage. `set` resolves when the value is stored. For tokens that the backend
   * renews: as options, a form that an admin opened before would bring the old token back.
   */
  readonly state: DriverState
  /** Tokens of all uploads that may be resumed, of all storages. Drivers remove other staged files of earlier runs. */
  resumableUploads(): Promise<readonly string[]>
  /**
   * A lazily resolved view of another path of the tree, for drivers built on other storages. It is resolved at each
   * call, and its writes are subject to the locks, properties and events of the target path. `shownAt`: the paths of
   * this storage that may show the member of `path` at this path relative to it; by default the same one. The search
   * index follows changes there.
   */
  tree(path: Path, shownAt?: (member: Path) => readonly Path[]): TreeDriver
  /**
   * Makes connections to hosts that only a server or a user has named. An address that an admin configured is connected
   * to without it.
   */
  readonly egress: Egress
  /**
   * Another program has changed the entry at `path`, or, if it is a folder, something below it: what is cached of it is
   * dropped. For backends that report changes. Without effect until `open` has resolved.
   */
  changed(path: Path): void
  /**
   * Throws `unavailable` if other nodes may have taken this one for dead, as after the process was frozen. A driver
   * whose changes take several steps calls it immediately before the one that takes effect.
   */
  assertCurrent(): void
  /**
   * `listener` gets the changes that other nodes make in this storage: what the driver has cached of them is wrong. If
   * some may have been missed, it gets one of the root folder. For drivers that cache by paths.
   */
  onChangeElsewhere(listener: (change: ChangeElsewhere) => void): void
  /**
   * Shows these warnings to the admin in the status of the storage, in place of earlier ones; an empty list removes
   * them. They may contain names of files.
   */
  report(warnings: readonly string[]): void
}

/** A change that another node has made. */
export type ChangeElsewhere =
  /** A change of the entry, or, if it is a folder, of something below it. */
  | { readonly kind: 'changed'; readonly path: Path }
  /** The removal of the entry, with everything below it. */
  | { readonly kind: 'removed'; readonly path: Path }
  | { readonly kind: 'moved'; readonly from: Path; readonly path: Path }

/**
 * A path of the tree as a driver. What its storages lack is made up for, or rejects with `unsupported`: a driver based
 * on it has no fallbacks of its own.
 */
export type TreeDriver = Driver &
  Required<
    Pick<
      Driver,
      | 'write'
      | 'mkdir'
      | 'remove'
      | 'removeTree'
      | 'move'
      | 'copy'
      | 'setAttributes'
      | 'realPath'
      | 'identities'
      | 'directUrl'
      | 'usage'
    >
  > & {
    /** The usage of the storage; undefined if the storage does not report it. */
    usageOrUndefined(options?: CallOptions): Promise<Usage | undefined>
  }

/** Guarded outgoing connections: to the public internet, and to the networks that an admin allows. */
export interface Egress {
  /**
   * Returns the agent for one request to `url`; it must not be used for another request. Throws `invalid` if the URL is
   * neither http nor https, or contains credentials. A connection to an address that is not allowed fails with
   * `denied`, whatever its host name: as the `error` event of the request, or thrown when the request is created.
   */
  agentFor(url: URL): Agent
  /** Returns a pool of connections that are reused, guarded as those of `agentFor`. The caller must close it. */
  pool(): AgentPool
}

/** Guarded connections that are reused by requests to the same origin. */
export interface AgentPool {
  /** Like `Egress.agentFor`; the agent may be used for other requests to the same origin, but must not be stored. */
  agentFor(url: URL): Agent
  /** Closes idle connections, and those in use when their requests have ended. */
  close(): void
}

/** Folders of this machine that belong to the gateway, as absolute paths without symlinks. */
export interface GatewayFolders {
  /** Relative paths in options are relative to this folder. */
  readonly data: string
  /**
   * No storage exposes these folders or a folder that contains one of them: they hold keys, the database and partial
   * uploads.
   */
  readonly protectedPaths: readonly string[]
}

/** One run of the program, distinct from all others, including those on other machines. */
export interface Instance {
  /** Unique; letters, digits and `-`, so that it can be part of a file name. */
  readonly name: string
  /** Whether the run of this name has ended; undefined if that is unknown, as for a run on another machine. */
  readonly isOver: (name: string) => boolean | undefined
  /**
   * Identifies the current boot of the machine: unsynced data of a killed process is lost when it changes. Undefined if
   * unknown.
   */
  readonly boot?: string | undefined
}

/**
 * All nodes that share the database have the same values, and the last one to be set counts. A value must therefore not
 * list what one node is doing: that belongs into a journal.
 */
export interface DriverState {
  get(key: string): Promise<string | undefined>
  set(key: string, value: string | undefined): Promise<void>
  /**
   * Runs `work` while no other node or storage runs work with this key: the token of an account is renewed once, by a
   * `work` that first reads whether another node has done so. Rejects with `busy`, without calling `work`, if that
   * takes more than ten seconds, and with `unavailable` without a connection to the database. If the connection is lost
   * while `work` runs, another node may begin its own.
   */
  exclusively<T>(key: string, work: () => Promise<T>): Promise<T>
  /** The journal of this name: what this node has begun and not ended. */
  journal(key: string): Journal
}

export interface Journal {
  /** A new entry, which is stored by its first `set`. */
  entry(): JournalEntry
  /**
   * Passes to `adopt` what earlier runs and ended nodes have left, the oldest first: before it resolves, and again when
   * another node has ended. These entries belong to this node from then on; no other node gets them. What a living node
   * has begun is never passed. A list that an older version has stored under the key is taken for left entries. Called
   * once, before the first entry is stored.
   */
  adopt(adopt: (left: readonly LeftEntry[]) => void): Promise<void>
}

export interface JournalEntry {
  /** Stores a value of JSON in place of the earlier one; undefined removes the entry. Resolves when that is stored. */
  set(value: unknown): Promise<void>
}

/** An entry that was not removed, and its value. */
export interface LeftEntry {
  readonly entry: JournalEntry
  /** The value; undefined if what is stored is not JSON. */
  readonly value: unknown
}
