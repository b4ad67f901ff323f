/** Clients that change few files all the time, and record what they do. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Addresses } from '../../gateway.js'
import { HttpClient, type ChaosClient, type SftpClient, type WebDavClient } from './clients.js'
import { contentOf } from './content.js'
import type { Answer, Operation, Protocol } from './history.js'
import type { Random } from './random.js'
import type { Recorder } from './recorder.js'

/** Milliseconds for which clients use a folder. */
const folderTime = 10_000
/** Milliseconds after which clients create the next file. */
const raceTime = 1500
const lockSeconds = 60
/**
 * After so many operations with an open outcome, clients leave a folder: each multiplies the orders that the checker
 * must try.
 */
const maxOpen = 10

/** A folder with a few files that clients move among each other. */
interface Area {
  readonly folder: string
  /** Paths of files that are written, moved and removed. */
  readonly files: readonly string[]
  /** A file that clients lock. */
  readonly locked: string
  /** A folder with one file. */
  readonly tree: string
  readonly begin: number
  /** Number of operations with an open outcome. */
  opened: number
}

interface Shared {
  /** The URL of the balancer. */
  readonly url: string
  readonly recorder: Recorder
  readonly areas: Areas
}

/** What clients use at the moment, and all that they have used. */
export class Areas {
  readonly #all: Area[] = []

  constructor(
    private readonly concurrent: number,
    private readonly addresses: Addresses,
    private readonly password: string,
    private readonly recorder: Recorder,
  ) {}

  get folders(): readonly string[] {
    return this.#all.flatMap(({ folder, tree }) => [folder, `${folder}/sub`, tree])
  }

  current(random: Random): Area | undefined {
    return random.of(this.#all.slice(-this.concurrent).filter(({ opened }) => opened < maxOpen))
  }

  /** Opens new folders until `isOver`. */
  async run(isOver: () => boolean): Promise<void> {
    for (let number = 0; !isOver(); number++) {
      await this.#add(`/area-${number}`, isOver)
      await wait(number < this.concurrent ? 0 : folderTime / this.concurrent)
    }
  }

  async #add(folder: string, isOver: () => boolean): Promise<void> {
    const locked = `${folder}/locked`
    const prepare = async (): Promise<boolean> => {
      const http = await HttpClient.connect(this.addresses.url, this.password)
      if ((await http.makeFolder(`${folder}/sub`)).outcome !== 'done') return false
      const content = this.recorder.newContent('areas')
      const action = { kind: 'write', path: locked, content } as const
      const by = { client: 'areas', protocol: 'http' } as const
      const { outcome } = await this.recorder.record(by, action, () => http.write(locked, contentOf(content, 100)))
      return outcome === 'done'
    }
    while (!(await prepare().catch(() => false))) {
      if (isOver()) return
      await wait(200)
    }
    const files = [`${folder}/a`, `${folder}/b`, `${folder}/sub/a`]
    this.#all.push({ folder, files, locked, tree: `${folder}/tree`, begin: this.recorder.now(), opened: 0 })
  }
}

/** Whether the balancer has a node that is ready. */
function isReady(url: string): Promise<boolean> {
  return fetch(`${url}/readyz`, { signal: AbortSignal.timeout(3000) }).then(
    ({ ok }) => ok,
    () => false,
  )
}

abstract class Worker {
  constructor(
    readonly name: string,
    readonly protocol: Protocol,
    protected readonly shared: Shared,
    protected readonly random: Random,
  ) {}

  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const area = this.shared.areas.current(this.random)
      const outcome = area ? await this.step(area).catch(() => 'open' as const) : 'open'
      await wait(this.random.between(0, 30))
      if (outcome !== 'open') continue
      if (area) area.opened++
      while (!isOver() && !(await isReady(this.shared.url))) await wait(200)
    }
    this.close()
  }

  /** Performs operations. Resolves to the outcome of the last one. */
  protected abstract step(area: Area): Promise<Operation['outcome']>
  protected abstract close(): void

  protected content(): readonly [id: string, content: Buffer] {
    const id = this.shared.recorder.newContent(this.name)
    const size = this.random.of([10, 100, 1000, 3000, 30_000, 100_000, 600_000]) ?? 0
    return [id, contentOf(id, this.random.between(0, size))]
  }

  protected record(
    action: Parameters<Recorder['record']>[1],
    perform: () => Promise<Answer>,
    presented?: string,
  ): Promise<Operation> {
    const by = { client: this.name, protocol: this.protocol, ...(presented === undefined ? {} : { presented }) }
    return this.shared.recorder.record(by, action, perform)
  }

  /** The file that all clients create at the moment. */
  protected race(area: Area): string {
    return `${area.folder}/new-${this.#turn(area)}`
  }

  /** Creates the folder that all clients create at the moment. */
  protected async createFolder(area: Area, client: Pick<ChaosClient, 'makeFolder'>): Promise<Operation['outcome']> {
    const path = `${area.folder}/folder-${this.#turn(area)}`
    return (await this.record({ kind: 'create', path, content: '' }, () => client.makeFolder(path))).outcome
  }

  protected async copy(client: Pick<WebDavClient, 'copy'>, path: string, to: string): Promise<Operation['outcome']> {
    const overwrite = this.random.next() < 0.5
    return (await this.record({ kind: 'copy', path, to, overwrite }, () => client.copy(path, to, overwrite))).outcome
  }

  #turn({ begin }: Area): number {
    return Math.floor((this.shared.recorder.now() - begin) / raceTime)
  }

  protected twoFiles({ files }: Area): readonly [from: string, to: string] {
    const from = this.random.of(files) ?? ''
    return [from, this.random.of(files.filter((file) => file !== from)) ?? '']
  }
}

abstract class BasicWorker extends Worker {
  /** Does one of the operations that every protocol has. */
  protected async basic(client: ChaosClient, area: Area, canMove: (from: string, to: string) => boolean = () => true) {
    const path = this.random.of(area.files) ?? ''
    const choice = this.random.next()
    if (choice < 0.35) {
      const action = {
        kind: 'read',
        path: this.random.of([...area.files, area.locked, this.race(area)]) ?? '',
      } as const
      return (await this.record(action, () => client.read(action.path))).outcome
    }
    if (choice < 0.65) {
      const [id, content] = this.content()
      return (await this.record({ kind: 'write', path, content: id }, () => client.write(path, content))).outcome
    }
    if (choice < 0.75) {
      const lenient = this.protocol === 'http'
      return (await this.record({ kind: 'remove', path, lenient }, () => client.remove(path))).outcome
    }
    if (choice < 0.8) {
      const [id, content] = this.content()
      const action = { kind: 'write', path: area.locked, content: id } as const
      return (await this.record(action, () => client.write(area.locked, content))).outcome
    }
    const [from, to] = this.twoFiles(area)
    if (!canMove(from, to)) return 'refused'
    const overwrite = this.random.next() < 0.5
    return (await this.record({ kind: 'move', path: from, to, overwrite }, () => client.move(from, to, overwrite)))
      .outcome
  }
}

export class HttpWorker extends BasicWorker {
  #client: HttpClient | undefined

  constructor(
    name: string,
    shared: Shared,
    random: Random,
    private readonly connect: () => Promise<HttpClient>,
  ) {
    super(name, 'http', shared, random)
  }

  protected async step(area: Area): Promise<Operation['outcome']> {
    const client = (this.#client ??= await this.connect())
    if (this.random.next() < 0.1) {
      const [path, [id, content]] = [this.race(area), this.content()]
      return (await this.record({ kind: 'create', path, content: id }, () => client.create(path, content))).outcome
    }
    const nameOf = (path: string) => path.slice(path.lastIndexOf('/'))
    const [from, to] = this.twoFiles(area)
    if (nameOf(from) === nameOf(to) && this.random.next() < 0.2) return this.copy(client, from, to)
    const inOneFolder = (from: string, to: string) => from.includes('/sub/') === to.includes('/sub/')
    return this.basic(client, area, (one, other) => inOneFolder(one, other) || nameOf(one) === nameOf(other))
  }

  protected close(): void {
    this.#client?.close()
  }
}

export class WebDavWorker extends BasicWorker {
  constructor(
    name: string,
    shared: Shared,
    random: Random,
    private readonly client: WebDavClient,
  ) {
    super(name, 'webdav', shared, random)
  }

  protected async step(area: Area): Promise<Operation['outcome']> {
    const choice = this.random.next()
    if (choice < 0.05) return this.createFolder(area, this.client)
    if (choice < 0.1) return this.#create(area)
    if (choice < 0.2) return this.#replace(area)
    if (choice < 0.4) return this.#changeTree(area)
    if (choice < 0.45) return this.copy(this.client, ...this.twoFiles(area))
    return choice < 0.55 ? this.#lock(area) : this.basic(this.client, area)
  }

  async #create(area: Area): Promise<Operation['outcome']> {
    const path = this.random.next() < 0.5 ? this.race(area) : (this.random.of(area.files) ?? '')
    const [id, content] = this.content()
    return (await this.record({ kind: 'create', path, content: id }, () => this.client.create(path, content))).outcome
  }

  /** Reads a file, and replaces it if it has not changed since. */
  async #replace(area: Area): Promise<Operation['outcome']> {
    const path = this.random.of(area.files) ?? ''
    let tag: string | undefined
    const { outcome, found } = await this.record({ kind: 'read', path }, async () => {
      const { tag: read, ...answer } = await this.client.read(path)
      tag = read
      return answer
    })
    if (found === undefined || tag === undefined) return outcome
    const [known, [id, content]] = [tag, this.content()]
    const action = { kind: 'replace', path, expected: found, content: id } as const
    return (await this.record(action, () => this.client.replace(path, known, content))).outcome
  }

  /**
   * Replaces a folder by another one, removes it, or reads the file in it. While a folder is replaced it may be
   * missing, so that nothing follows from such an answer.
   */
  async #changeTree({ folder, tree }: Area): Promise<Operation['outcome']> {
    const path = `${tree}/file`
    const unlessMissing = async (perform: () => Promise<Answer>): Promise<Answer> => {
      const answer = await perform()
      return answer.outcome === 'missing' ? { ...answer, outcome: 'refused' } : answer
    }
    const choice = this.random.next()
    if (choice < 0.4) {
      return (await this.record({ kind: 'read', path }, () => unlessMissing(() => this.client.read(path)))).outcome
    }
    if (choice < 0.5) {
      const action = { kind: 'remove', path, lenient: true } as const
      return (await this.record(action, () => unlessMissing(() => this.client.remove(tree)))).outcome
    }
    const [id, content] = this.content()
    const prepared = `${folder}/prepared-${id}`
    if ((await this.client.makeFolder(prepared)).outcome !== 'done') return 'open'
    if ((await this.client.write(`${prepared}/file`, content)).outcome !== 'done') return 'open'
    const action = { kind: 'write', path, content: id } as const
    return (await this.record(action, () => unlessMissing(() => this.client.move(prepared, tree, true)))).outcome
  }

  /** Holds a lock, and changes the file meanwhile. */
  async #lock({ locked: path }: Area): Promise<Operation['outcome']> {
    const lock = { kind: 'lock', path, seconds: lockSeconds } as const
    const { outcome, token } = await this.record(lock, () => this.client.lock(path, lockSeconds))
    if (outcome !== 'done' || token === undefined) return outcome
    for (let times = this.random.between(0, 3); times > 0; times--) {
      const [id, content] = this.content()
      await this.record({ kind: 'write', path, content: id }, () => this.client.write(path, content, token), token)
    }
    return (await this.record({ kind: 'unlock', path, token }, () => this.client.unlock(path, token))).outcome
  }

  protected close(): void {
    this.client.close()
  }
}

export class SftpWorker extends BasicWorker {
  constructor(
    name: string,
    shared: Shared,
    random: Random,
    private readonly client: SftpClient,
  ) {
    super(name, 'sftp', shared, random)
  }

  protected async step(area: Area): Promise<Operation['outcome']> {
    // The next session may be on another node.
    if (this.random.next() < 0.05) this.client.close()
    const choice = this.random.next()
    if (choice < 0.05) return this.createFolder(area, this.client)
    return choice < 0.15 ? this.#create(this.race(area)) : this.basic(this.client, area)
  }

  /** Creates an empty file, which is replaced when the handle is closed, and removed if the connection breaks. */
  async #create(path: string): Promise<Operation['outcome']> {
    let handle: Buffer | undefined
    const reserved = await this.record({ kind: 'create', path, content: '' }, async () => {
      const answer = await this.client.reserve(path)
      if ('outcome' in answer) return answer
      handle = answer.handle
      return { outcome: 'done' }
    })
    if (handle === undefined) {
      if (reserved.outcome === 'open') await this.#mayBeRemoved(path)
      return reserved.outcome
    }
    const [open, [id, content]] = [handle, this.content()]
    const action = { kind: 'replace', path, expected: '', content: id } as const
    const { outcome } = await this.record(action, () => this.client.fill(open, content))
    if (outcome !== 'done') await this.#mayBeRemoved(path)
    return outcome
  }

  async #mayBeRemoved(path: string): Promise<void> {
    await this.record({ kind: 'replace', path, expected: '' }, async () => ({ outcome: 'open' }))
  }

  protected close(): void {
    this.client.close()
  }
}
