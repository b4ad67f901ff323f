/** A folder on a WebDAV server as a storage. */
import { PassThrough, Readable } from 'node:stream'
import { assertGoing, untilAborted } from '../../src/aborting.js'
import type {
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  Link,
  Source,
  Traits,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/errors.js'
import { childOf, isWithin, nameOf, parentOf, type Path } from '../../src/path.js'
import { Bodies } from '../lib/bodies.js'
import { HttpClient, type HttpAnswer, type SentBody } from '../lib/http-client.js'
import { networkError } from '../lib/network-errors.js'
import { UploadBody } from '../lib/sent-body.js'
import { isAbandoned, stagedName } from '../lib/staged-names.js'
import { Turns } from '../lib/turns.js'
import { entryOf } from './entry.js'
import { nonsense, serverName, WebdavStatus } from './errors.js'
import type { WebdavOptions } from './index.js'
import { Locations } from './locations.js'
import type { Properties } from './multistatus.js'
import { PartOfBody } from './part-of-body.js'
import { Publishing } from './publishing.js'
import { SizeWantedError, WebdavServer, type Kind } from './server.js'

/** Milliseconds in which what was begun for a call that is aborted can be undone; longer than that, it goes on by itself. */
const endTime = 500
/** Entries that are told of before the folder itself is; then that is asked for. */
const heldAtMost = 1000

export async function openWebdav(options: WebdavOptions, env: DriverEnv): Promise<Driver> {
  if (options.vendor === 'sharepoint') {
    throw new GatewayError('unsupported', {
      reason: 'signing in to SharePoint is not supported; the vendor must be other',
    })
  }
  const { username, password } = options
  if (username.includes(':')) throw new GatewayError('invalid', { reason: 'username cannot hold a colon' })
  const address = addressOf(options.address)
  const http = new HttpClient({
    server: serverName,
    address,
    credentials: { username, password },
    verifiesCertificate: !options.tls_insecure_skip_verify,
    egress: env.egress,
  })
  const server = new WebdavServer(http, new Locations(address, options.root_folder_path))
  try {
    const { isFolder, available, used } = await server.lookAtRoot(env.signal)
    if (isFolder !== true) throw new GatewayError('invalid', { reason: 'root_folder_path is no folder' })
    const tellsUsage = available !== undefined && used !== undefined
    return new WebdavDriver({ http, server, env, known: await knownOf(address, env), tellsUsage })
  } catch (error) {
    http.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_path is not there', cause: error })
      : toGatewayError(error)
  }
}

/** Rejects with `invalid` where it is none. */
function addressOf(text: string): URL {
  const typed = text.trim()
  const address = typed.includes('://') ? typed : `https://${typed}`
  if (URL.canParse(address)) {
    const url = new URL(address)
    const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === ''
    if (['http:', 'https:'].includes(url.protocol) && isPlain) return url
  }
  throw new GatewayError('invalid', { reason: 'address must be a URL of http or https, without name and password' })
}

/** What the server at this address has shown before, and under which keys that is kept. */
async function knownOf({ href }: URL, { state }: DriverEnv) {
  const [timesKey, sizeKey] = [`keeps times: ${href}`, `wants sizes: ${href}`]
  const [times, sizes] = [await state.get(timesKey), await state.get(sizeKey)]
  return { timesKey, sizeKey, keepsTimes: times !== undefined, wantsSize: sizes !== undefined }
}

interface Parts {
  readonly http: HttpClient
  readonly server: WebdavServer
  readonly env: DriverEnv
  readonly known: Awaited<ReturnType<typeof knownOf>>
  readonly tellsUsage: boolean
}

class WebdavDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly usage?: (options?: CallOptions) => Promise<Usage>
  readonly #server: WebdavServer
  readonly #bodies = new Bodies(serverName, (error) => networkError(error, serverName))
  readonly #turns = new Turns()
  readonly #publishing: Publishing
  #wantsSize: boolean

  constructor(private readonly parts: Parts) {
    const { server, env } = parts
    this.#server = server
    this.#publishing = new Publishing({ server, env, lookFor: (path, signal) => this.#lookFor(path, signal) })
    const { keepsTimes, wantsSize } = parts.known
    this.#wantsSize = wantsSize
    // Whole seconds are what HTTP has for times.
    this.traits = { ...(keepsTimes && { timeStep: 1000 }), ...(wantsSize && { writeNeeds: 'size' }) }
    if (parts.tellsUsage) this.usage = ({ signal } = {}) => this.#usage(signal)
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    return entryOf(nameOf(path), await this.#look(path, signal))
  }

  /**
   * What is gone may be the fault of a setting where it is the root: a storage is not empty because of that. For what would be below
   * a file servers have other words than "not found".
   */
  async #look(path: Path, signal: AbortSignal | undefined): Promise<Properties> {
    try {
      return await this.#server.look(path, signal)
    } catch (error) {
      if (path === '/') {
        if (!isGatewayError(error, 'not_found')) throw error
        throw new GatewayError('unavailable', { reason: 'root_folder_path is not there', cause: error })
      }
      if (!isGatewayError(error, 'invalid', 'parent_missing', 'unsupported')) throw error
      const { isFolder } = await this.#look(parentOf(path), signal)
      throw isFolder === true ? error : new GatewayError('not_found', { cause: error })
    }
  }

  async *list(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    let held: Entry[] = []
    let isFolder = false
    try {
      for await (const { itself, members } of this.#server.members(path, signal)) {
        if (itself && itself.isFolder !== true) throw new GatewayError('not_dir')
        isFolder ||= itself !== undefined
        const entries = members.filter(({ name }) => !this.#publishing.isStaged(path, name))
        held.push(...entries.map(({ name, properties }) => entryOf(name, properties)))
        // Most servers tell of the folder first; what comes before that waits for it.
        if (!isFolder && held.length > heldAtMost) {
          isFolder = (await this.#look(path, signal)).isFolder === true
          if (!isFolder) throw new GatewayError('not_dir')
        }
        if (!isFolder || held.length === 0) continue
        yield held
        held = []
      }
      if (!isFolder)
        throw new GatewayError('unavailable', { reason: `the ${serverName} does not tell of what it lists` })
    } catch (error) {
      if (isFolder || isGatewayError(error, 'not_dir', 'aborted', 'unavailable', 'timeout')) throw error
      // Some do not know a file by its name with a slash.
      if ((await this.#look(path, signal)).isFolder !== true) throw new GatewayError('not_dir', { cause: error })
      throw error
    }
  }

  async read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    const { isFolder, size } = await this.#look(path, signal)
    if (isFolder === true) throw new GatewayError('is_dir')
    const { offset, length } = range ?? { offset: 0 }
    if (length === 0 || (size !== undefined && offset >= size)) return Readable.from([], { objectMode: false })
    const isWhole = offset === 0 && (length === undefined || (size !== undefined && length >= size))
    const asked = isWhole ? undefined : `bytes=${offset}-${length === undefined ? '' : offset + length - 1}`
    const answer = await this.#server.get(path, asked, signal)
    try {
      return this.#content(answer, { part: isWhole ? undefined : { offset, length }, size, signal })
    } catch (error) {
      answer.body.destroy()
      throw error
    }
  }

  #content({ status, headers, body }: HttpAnswer, { part, size, signal }: Wanted): Readable {
    if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw nonsense('sends a file that is packed')
    if (status === 206) {
      if (part === undefined) throw nonsense('sends a part of a file where the whole was asked for')
      const sent = sentPart(headers['content-range'])
      if (sent?.offset !== part.offset) throw nonsense('sends another part of a file than was asked for')
      const rest = (size ?? sent.size ?? Number.POSITIVE_INFINITY) - part.offset
      const wanted = Math.min(part.length ?? Number.POSITIVE_INFINITY, rest)
      if (sent.length < wanted && wanted < Number.POSITIVE_INFINITY) {
        throw nonsense('sends less of a file than was asked for')
      }
      const content = this.#bodies.follow(body, sent.length, signal)
      return part.length === undefined ? content : new PartOfBody(content, { ...part, offset: 0 }).stream
    }
    // Where the answer does not say how long it is, it ends like one that broke off.
    const announced = headers['content-length'] === undefined ? size : Number(headers['content-length'])
    const content = this.#bodies.follow(body, announced, signal)
    // A server that does not know ranges sends the whole.
    return part === undefined ? content : new PartOfBody(content, part).stream
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, modified } = options
    if (this.#wantsSize && source.size === undefined)
      throw new GatewayError('unsupported', { reason: 'the size must be known' })
    const old = await this.#replaceable(path, options)
    return this.#staged(path, options, old, async (staged) => {
      const body = new UploadBody(source, signal)
      const headers = await this.#server
        .put(staged, await sendable(body), modified, signal)
        .catch((error: unknown) => this.#refused(error, path, signal))
      if (modified && !this.parts.known.keepsTimes && headers['x-oc-mtime'] === 'accepted') {
        await this.parts.env.state.set(this.parts.known.timesKey, 'yes')
      }
      const { size } = await this.#server.look(staged, signal)
      if (size !== undefined && size !== body.sent) throw nonsense('has not stored all of it')
    })
  }

  async #refused(error: unknown, path: Path, signal: AbortSignal | undefined): Promise<never> {
    if (!(error instanceof SizeWantedError)) return this.#explain(error, path, signal)
    this.#wantsSize = true
    await this.parts.env.state.set(this.parts.known.sizeKey, 'yes')
    throw error
  }

  /** Fills a file beside `path`, and then gives it that name: the old file is whole until the new one is stored. */
  async #staged(
    path: Path,
    options: WriteOptions,
    old: Properties | undefined,
    fill: (staged: Path) => Promise<void>,
  ): Promise<Entry> {
    const { signal, beforePublish, createOnly } = options
    const staged = childOf(parentOf(path), stagedName(this.parts.env.instance.name))
    const seen = { moving: false }
    const publish = async () => {
      if (createOnly === true) await this.#assertFree(path, signal)
      assertGoing(signal)
      seen.moving = true
      await this.#publishing
        .move(staged, path, old, createOnly !== true)
        .catch((error: unknown) => this.#explain(error, path, signal))
      return this.stat(path, { signal })
    }
    const work = async () => {
      try {
        await fill(staged)
        assertGoing(signal)
        await beforePublish?.()
        return await this.#turns.run(path, publish, signal)
      } catch (error) {
        if (!seen.moving) await this.#publishing.discard(staged)
        throw error
      }
    }
    return untilAborted(work(), signal, { patience: endTime })
  }

  /** Servers look whether a name is free, and take it a moment later: of those who ask through us, only one is in between. */
  async #assertFree(path: Path, signal: AbortSignal | undefined): Promise<void> {
    if (await this.#lookFor(path, signal)) throw new GatewayError('exists')
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const make = async () => {
      await this.#assertFree(path, signal)
      await this.#server.makeFolder(path, signal).catch((error: unknown) => this.#explain(error, path, signal))
    }
    await this.#turns.run(path, make, signal)
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    const { isFolder } = await this.#look(path, signal)
    // DELETE takes all that is below (RFC 4918 §9.6.1).
    if (isFolder === true) await this.#assertEmpty(path, signal)
    await this.#server.delete(path, isFolder === true ? 'folder' : 'file', signal)
  }

  async #assertEmpty(path: Path, signal: AbortSignal | undefined): Promise<void> {
    for await (const { members } of this.#server.members(path, signal)) {
      if (members.some(({ name }) => !isAbandoned(name, this.parts.env.instance))) throw new GatewayError('not_empty')
    }
  }

  async removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    await this.#server.delete(path, kindOf(await this.#look(path, signal)), signal)
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    if (from === '/') throw new GatewayError('denied', { reason: 'the root folder stays' })
    const kind = kindOf(await this.#look(from, signal))
    if (from === to) return
    if (isWithin(from, to)) throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
    const old = await this.#lookFor(to, signal)
    if (old?.isFolder === true) throw new GatewayError('is_dir')
    if (old && kind === 'folder') throw new GatewayError('exists')
    try {
      await this.#server.move(from, to, kind, old !== undefined, signal)
    } catch (error) {
      throw await this.#explained(error, to, signal)
    }
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { signal, modified } = options
    const original = await this.#look(from, signal)
    if (original.isFolder === true) throw new GatewayError('is_dir')
    const isAnotherTime = modified !== undefined && modified.getTime() !== original.modified?.getTime()
    if (this.parts.known.keepsTimes && isAnotherTime) throw new GatewayError('unsupported')
    const old = await this.#replaceable(to, options)
    await this.#staged(to, options, old, async (staged) => {
      await this.#server.copy(from, staged).catch((error: unknown) => this.#explain(error, to, signal))
    })
  }

  /** Only of a server that sends its clients elsewhere for the content, as those before an object store do. */
  async link(path: Path, { signal }: CallOptions = {}): Promise<Link> {
    const { isFolder } = await this.#look(path, signal)
    if (isFolder === true) throw new GatewayError('is_dir')
    const target = await this.#server.redirectOf(path, signal)
    if (!target) throw new GatewayError('unsupported', { reason: 'its address is of no use without the credentials' })
    return { url: target.href }
  }

  async #usage(signal: AbortSignal | undefined): Promise<Usage> {
    const { available, used } = await this.#server.lookAtRoot(signal)
    if (available === undefined || used === undefined) throw new GatewayError('unsupported')
    return { total: available + used, used, free: available }
  }

  async close(): Promise<void> {
    this.#bodies.close()
    this.parts.http.close()
  }

  // What is there

  async #lookFor(path: Path, signal: AbortSignal | undefined): Promise<Properties | undefined> {
    return this.#look(path, signal).catch((error: unknown) => {
      if (isGatewayError(error, 'not_found', 'parent_missing', 'not_dir')) return undefined
      throw error
    })
  }

  /** What would be replaced. */
  async #replaceable(path: Path, { createOnly, signal }: WriteOptions): Promise<Properties | undefined> {
    const old = await this.#lookFor(path, signal)
    if (old?.isFolder === true) throw new GatewayError('is_dir')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  /** Servers have many words for a parent that is not there, and for a name that has been taken meanwhile. */
  async #explained(error: unknown, path: Path, signal: AbortSignal | undefined): Promise<unknown> {
    if (isGatewayError(error, 'precondition_failed')) {
      const taken = await this.#lookFor(path, signal).catch(() => undefined)
      return new GatewayError(taken?.isFolder === true ? 'is_dir' : 'exists', { cause: error })
    }
    if (!isGatewayError(error) || !(error.cause instanceof WebdavStatus)) return error
    if (isGatewayError(error, 'no_space', 'locked', 'too_large')) return error
    const parent = await this.#lookFor(parentOf(path), signal).catch(() => ({ isFolder: true }))
    if (!parent) return new GatewayError('parent_missing', { cause: error })
    if (parent.isFolder !== true) return new GatewayError('not_dir', { cause: error })
    return error
  }

  async #explain(error: unknown, path: Path, signal: AbortSignal | undefined): Promise<never> {
    throw await this.#explained(error, path, signal)
  }
}

/** What was asked for of a file that is so long, as far as that is known. */
interface Wanted {
  readonly part: ByteRange | undefined
  readonly size: number | undefined
  readonly signal: AbortSignal | undefined
}

/** What an answer of status 206 is a part of (RFC 9110 §14.4). */
function sentPart(contentRange = '') {
  const [, first, last, all] = /^bytes (\d+)-(\d+)\/(\d+|\*)/i.exec(contentRange) ?? []
  if (first === undefined || last === undefined) return undefined
  const size = all === undefined || all === '*' ? undefined : Number(all)
  return { offset: Number(first), length: Number(last) - Number(first) + 1, size }
}

/** Nothing can be sent as often as need be, once it is sure that there is nothing. */
async function sendable(body: UploadBody): Promise<string | SentBody> {
  if (body.size !== 0) return body
  await body.send(new PassThrough().resume())
  return ''
}

function kindOf({ isFolder }: Properties): Kind {
  return isFolder === true ? 'folder' : 'file'
}
