/** Nodes on one database behind a balancer, and what happens to them: kills, freezes, and restarts of the database. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { prepareNodes, startDaemon, type Addresses, type Daemon } from '../../gateway.js'
import { freePorts } from '../../servers/free-port.js'
import { startBalancer } from '../../servers/haproxy.js'
import { startPostgres, type PostgresServer } from '../../servers/postgres.js'
import type { Period } from './checker.js'
import type { Random } from './random.js'

const password = 'a password for tests'
/** Milliseconds for which a node is frozen: longer than it takes the others to end it. */
const freezeTime = 30_000
/** Milliseconds within which a node is ready after a fault. */
const readyTimeout = 90_000

class Node {
  /** The running daemon; undefined while the node is down. */
  daemon: Daemon | undefined
  isFrozen = false

  constructor(
    readonly ports: { readonly http: number; readonly sftp: number },
    readonly start: () => Promise<Daemon>,
  ) {}

  get addresses(): Addresses {
    const url = `http://127.0.0.1:${this.ports.http}`
    return { url, davUrl: `${url}/dav/`, sftpPort: this.ports.sftp }
  }
}

export class Cluster {
  readonly password = password
  kills = 0
  databaseRestarts = 0
  /** Daemons that have ended without being killed. */
  exits = 0
  /** When nodes were frozen. */
  readonly frozen: Period[] = []
  #isDatabaseUp = true

  private constructor(
    /** The folder of the storage at `/`. */
    readonly files: string,
    /** The addresses of the balancer. */
    readonly addresses: Addresses,
    private readonly nodes: readonly Node[],
    private readonly database: PostgresServer,
    private readonly random: Random,
    private readonly say: (line: string) => void,
  ) {}

  static async start(t: Test, count: number, random: Random, say: (line: string) => void): Promise<Cluster> {
    const database = await startPostgres()
    t.teardown(() => database.stop())
    const files = await mkdtemp(join(tmpdir(), 'tidegate-chaos-'))
    t.teardown(() => rm(files, { recursive: true, force: true, maxRetries: 3 }))
    const store = await database.createDatabase()
    const folders = await prepareNodes(t, store, count, files, password)
    const numbers = await freePorts(2 * count)
    const environment = { TIDEGATE_STORE: store }
    const nodes = folders.map((dataFolder, index) => {
      const ports = { http: numbers[2 * index] ?? 0, sftp: numbers[2 * index + 1] ?? 0 }
      return new Node(ports, () => startDaemon(t, { dataFolder, adminPassword: password, ports, environment }))
    })
    for (const node of nodes) node.daemon = await node.start()
    const { http, sftp } = await startBalancer(
      t,
      nodes.map(({ ports }) => ports),
    )
    const url = `http://127.0.0.1:${http}`
    const cluster = new Cluster(files, { url, davUrl: `${url}/dav/`, sftpPort: sftp }, nodes, database, random, say)
    await cluster.ready()
    return cluster
  }

  /** The addresses of each node that is up. */
  get each(): readonly Addresses[] {
    return this.nodes.flatMap(({ addresses, daemon }) => (daemon ? [addresses] : []))
  }

  /** Calls `meanwhile`, and kills the node that it is called with. It stays down until `startLost`. */
  async loseOne(meanwhile: (node: Addresses) => Promise<void>): Promise<void> {
    const node = this.random.of(this.nodes)
    if (!node) return
    await meanwhile(node.addresses)
    this.say(`kill ${node.ports.http}`)
    const { daemon } = node
    node.daemon = undefined
    await daemon?.kill()
    this.kills++
  }

  async startLost(): Promise<void> {
    await Promise.all(this.nodes.map((node) => this.#start(node)))
    await this.ready()
  }

  /**
   * Causes faults until `end`, by the clock `performance.now()`. Resolves when all nodes and the database run again.
   */
  async suffer(end: number): Promise<void> {
    const isOver = () => performance.now() >= end
    let over = false
    const supervising = this.#supervise(() => over)
    await Promise.all([this.#freezes(isOver), this.#interruptions(isOver)])
    await this.ready()
    over = true
    await supervising
  }

  /** Resolves when every node is ready. Rejects after a timeout. */
  async ready(): Promise<void> {
    const deadline = performance.now() + readyTimeout
    for (const { addresses, daemon } of this.nodes) {
      const isReady = () =>
        fetch(`${addresses.url}/readyz`, { signal: AbortSignal.timeout(3000) }).then(
          ({ ok }) => ok,
          () => false,
        )
      while (!(await isReady())) {
        if (performance.now() > deadline) throw new Error(`a node is not ready: ${addresses.url}\n${daemon?.log}`)
        await wait(200)
      }
    }
  }

  /** The end of the log of each node, from warnings. */
  logs(): readonly string[] {
    return this.nodes.map(({ addresses, daemon }) => {
      const lines = (daemon?.log ?? '').split('\n').filter((line) => !line.includes('"level":30'))
      return `${addresses.url}:\n${lines.join('\n')}`
    })
  }

  async #freezes(isOver: () => boolean): Promise<void> {
    await wait(this.random.between(2000, 6000))
    while (!isOver()) {
      const node = this.random.of(this.nodes.filter(({ daemon }) => daemon && !daemon.exited))
      if (node?.daemon) {
        const { pid } = node.daemon
        node.isFrozen = true
        const from = performance.now()
        this.say(`freeze ${node.ports.http}`)
        process.kill(pid, 'SIGSTOP')
        await wait(freezeTime)
        process.kill(pid, 'SIGCONT')
        this.say(`continue ${node.ports.http}`)
        this.frozen.push({ from, to: performance.now() })
        node.isFrozen = false
      }
      await wait(this.random.between(3000, 10_000))
    }
  }

  async #interruptions(isOver: () => boolean): Promise<void> {
    for (let turn = 0; !isOver(); turn++) {
      await wait(this.random.between(1000, 6000))
      // The database once among the first two, then every third time.
      if (turn === 1 || (turn > 1 && this.random.between(0, 3) < 1)) await this.#restartDatabase()
      else await this.#killNode()
    }
  }

  async #killNode(): Promise<void> {
    const node = this.random.of(this.nodes.filter(({ daemon, isFrozen }) => daemon && !daemon.exited && !isFrozen))
    const { daemon } = node ?? {}
    if (!node || !daemon) return
    this.say(`kill ${node.ports.http}`)
    node.daemon = undefined
    await daemon.kill()
    this.kills++
    await wait(this.random.between(0, 3000))
    await this.#start(node)
  }

  async #restartDatabase(): Promise<void> {
    this.say('kill the database')
    this.#isDatabaseUp = false
    await this.database.kill()
    // Rarely for longer than a node is current without it.
    await wait(this.random.between(0, 10) < 1 ? 20_000 : this.random.between(0, 5000))
    await this.database.restart()
    this.#isDatabaseUp = true
    this.databaseRestarts++
    this.say('the database runs again')
  }

  async #start(node: Node): Promise<void> {
    if (node.daemon) return
    while (!node.daemon) {
      try {
        node.daemon = await node.start()
      } catch (error) {
        // Only without the database.
        if (this.#isDatabaseUp) this.say(`a start failed: ${String(error)}`)
        await wait(500)
      }
    }
    this.say(`started ${node.ports.http}`)
  }

  /** Starts daemons again that have ended by themselves, as a service manager does. */
  async #supervise(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      for (const node of this.nodes) {
        if (node.daemon?.exited !== true || node.isFrozen) continue
        this.exits++
        this.say(`the daemon ${node.ports.http} has ended: ${node.daemon.log.slice(-2000)}`)
        node.daemon = undefined
        await this.#start(node)
      }
      await wait(200)
    }
  }
}
