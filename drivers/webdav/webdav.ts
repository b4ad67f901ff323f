/** A folder on a WebDAV server as a storage. */
import { PassThrough, Readable } from 'node:stream'
import type {
  ByteRange,
  CallOptions,
  Driver,
  DriverEnv,
  Entry,
  HashName,
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
import { stagedBy, stagedName } from '../lib/staged-names.js'
import { Turns } from '../lib/turns.js'
import { WebdavStatus } from './errors.js'
import type { WebdavOptions } from './index.js'
import { Locations } from './locations.js'
import type { Properties } from './multistatus.js'
import { PartOfBody } from './part-of-body.js'
import { serverName, SizeWantedError, WebdavServer, type Kind } from './server.js'

/** Milliseconds that the server has for dropping what nobody wants any more. */
const cleanUpTime = 15_000

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
  const told = new Set<Path>()
  const onHostileName = (folder: Path) => {
    if (told.has(folder) || told.size >= 1000) return
    told.add(folder)
    env.log.warn({ folder }, 'names that cannot be told are left out')
  }
  const server = new WebdavServer(http, new Locations(address, options.root_folder_path), onHostileName)
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
  /** Staged files that may be all there is. */
  readonly #unsettled = new Set<Path>()
  #wantsSize: boolean

  constructor(private readonly parts: Parts) {
    this.#server = parts.server
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
        const entries = members.filter(({ name }) => !this.#isStaged(path, name))
        held.push(...entries.map(({ name, properties }) => entryOf(name, properties)))
        // Most servers tell of the folder first; what comes before that waits for it.
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
      return this.#content(answer, isWhole ? undefined : { offset, length }, signal)
    } catch (error) {
      answer.body.destroy()
      throw error
    }
  }

  #content({ status, headers, body }: HttpAnswer, part: ByteRange | undefined, signal?: AbortSignal): Readable {
    if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw nonsense('sends a file that is packed')
    if (part === undefined && status === 206) throw nonsense('sends a part of a file where the whole was asked for')
    const [, first] = /^bytes (\d+)-\d+\//.exec(headers['content-range'] ?? '') ?? []
    if (status === 206 && Number(first) !== part?.offset)
      throw nonsense('sends another part of a file than was asked for')
    const announced = headers['content-length'] === undefined ? undefined : Number(headers['content-length'])
    const content = this.#bodies.follow(body, announced, signal)
    if (part === undefined || (status === 206 && part.length === undefined)) return content
    // A server that does not know ranges sends the whole.
    return new PartOfBody(content, status === 206 ? { ...part, offset: 0 } : part).stream
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
    let [isMoving, isMoved] = [false, false]
    try {
      await fill(staged)
      await beforePublish?.()
      return await this.#turns.run(path, async () => {
        if (createOnly === true) await this.#assertFree(path, signal)
        isMoving = true
        await this.#server.move(staged, path, 'file', createOnly !== true, signal)
        isMoved = true
        return this.stat(path, { signal })
      })
    } catch (error) {
      if (isMoved) throw error
      const cause = isMoving ? await this.#explained(error, path, signal) : error
      await this.#discard(staged, isMoving && old !== undefined ? path : undefined)
      throw cause
    }
  }

  /** Servers look whether a name is free, and take it a moment later: of those who ask through us, only one is in between. */
  async #assertFree(path: Path, signal: AbortSignal | undefined): Promise<void> {
    if (await this.#lookFor(path, signal)) throw new GatewayError('exists')
  }

  /**
   * Removes the staged file, unless it may be all there is: a server may have removed the old file at `target` before it failed to put
   * the new one there. Then this is done instead; what cannot be settled now is when its folder is listed, also by a later run.
   */
  async #discard(staged: Path, target: Path | undefined): Promise<void> {
    const { log, state } = this.parts.env
    const key = `unsettled: ${staged}`
    const signal = AbortSignal.timeout(cleanUpTime)
    try {
      const isAllThereIs = target !== undefined && !(await this.#lookFor(target, signal))
      if (isAllThereIs) await this.#server.move(staged, target, 'file', false, signal)
      else await this.#server.delete(staged, 'file', signal)
    } catch (error) {
      if (!isGatewayError(error, 'not_found')) {
        log.warn({ err: error, staged }, 'a file that was being written is left behind for now')
        if (target === undefined || this.#unsettled.has(staged)) return
        this.#unsettled.add(staged)
        await state.set(key, target).catch(() => undefined)
        return
      }
    }
    if (this.#unsettled.delete(staged)) await state.set(key, undefined).catch(() => undefined)
  }

  async #settle(staged: Path): Promise<void> {
    const target = await this.parts.env.state.get(`unsettled: ${staged}`)
    if (target !== undefined) this.#unsettled.add(staged)
    await this.#discard(staged, target as Path | undefined)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#turns.run(path, async () => {
      await this.#assertFree(path, signal)
      await this.#server.makeFolder(path, signal).catch((error: unknown) => this.#explain(error, path, signal))
    })
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
      if (members.some(({ name }) => !this.#isAbandoned(name))) throw new GatewayError('not_empty')
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
      await this.#server.copy(from, staged, signal).catch((error: unknown) => this.#explain(error, to, signal))
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

  /** Whether it is a file that is being written, which nobody sees. What a dead run of the program has left goes. */
  #isStaged(folder: Path, name: string): boolean {
    if (stagedBy(name) === undefined) return false
    const staged = childOf(folder, name)
    if (this.#isAbandoned(name) || this.#unsettled.has(staged)) this.#settle(staged).catch(() => undefined)
    return true
  }

  #isAbandoned(name: string): boolean {
    const instance = stagedBy(name)
    return instance !== undefined && this.parts.env.instance.isOver(instance) === true
  }
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

function entryOf(name: string, { isFolder, size = 0, modified = new Date(0), ...more }: Properties): Entry {
  if (isFolder === true)
    return { name, kind: 'folder', size: 0, modified, ...(more.created && { created: more.created }) }
  // A weak one becomes strong as time goes by (as Apache has it); the content is the same.
  const revision = more.etag?.replace(/^(?:W\/)?"(.*)"$/, '$1')
  const hashes = hashesOf(more.checksums ?? '')
  return {
    name,
    kind: 'file',
    size,
    modified,
    ...(revision !== undefined && { revision }),
    ...(hashes && { hashes }),
    ...(more.created && { created: more.created }),
  }
}

const hashNames: Readonly<Record<string, { readonly name: HashName; readonly digits: number }>> = {
  MD5: { name: 'md5', digits: 32 },
  SHA1: { name: 'sha1', digits: 40 },
  SHA256: { name: 'sha256', digits: 64 },
}

/** Characters. */
const checksumsLimit = 1024

function hashesOf(checksums: string): Partial<Record<HashName, string>> | undefined {
  const hashes: Partial<Record<HashName, string>> = {}
  // The few that there are; more text is none of them.
  for (const checksum of checksums.slice(0, checksumsLimit).split(/[\s,]+/)) {
    const [, word = '', digest = ''] = /^([\w-]+):([\da-f]+)$/i.exec(checksum) ?? []
    const known = hashNames[word.toUpperCase()]
    if (known?.digits === digest.length) hashes[known.name] = digest.toLowerCase()
  }
  return Object.keys(hashes).length > 0 ? hashes : undefined
}

function nonsense(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${serverName} ${what}` })
}
