/** The processes that share the database. */

/** One running daemon, or one that has ended. */
export interface NodeRow {
  /** The name of the run: `Instance.name`. */
  readonly id: string
  /** The host, and the process on it, as admins read it. */
  readonly name: string
  /** The version of the program. */
  readonly version: string
  /** The addresses at which the node accepts connections, by protocol, as JSON text. */
  readonly addresses: string
  readonly started: Date
  /** When it last reported that it is alive: milliseconds since 1970 by the clock of the database. */
  readonly heartbeat: number
  /** When the node ended. Undefined while it is alive. */
  readonly ended: Date | undefined
  /** The amounts of work of the node at its last heartbeat, as JSON text. */
  readonly working: string
  /** Milliseconds since its heartbeat, when the row was read. */
  readonly age: number
}

/** The processes that share the database. Times are by its clock. */
export interface NodeRows {
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

/** The duties, each of which one node at a time does for all of them. */
export interface LeaseRows {
  /** Whether this node holds the lease: it did before, or no living node does. */
  obtain(name: string): Promise<boolean>
  /** Does nothing if another node holds it. */
  release(name: string): Promise<void>
}
