/** The WebDAV driver: a folder on a WebDAV server. */
import { Readable } from 'node:stream'
import { throwIfAborted, untilAborted } from '../../src/base/cancellation.js'
import type { DirectUrl, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, hasDetail, isGatewayError, toGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { pseudonymOf } from '../../src/contract/own-requests.js'
import { nameOf, parentOf, type Path } from '../../src/base/path.js'
import { HttpClient } from '../lib/http/http-client.js'
import { contentOf, contentRequest, rangeHeader } from '../lib/http/http-content.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { networkError } from '../lib/network-errors.js'
import { RequestBody, sendable } from '../lib/http/request-body.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import { StagedFiles, type FileVersion } from '../lib/staged-files/staged-files.js'
import { isOrphan } from '../lib/staged-files/staged-names.js'
import { parseServerAddress } from '../lib/http/server-address.js'
import { protocolViolation, serverName, WebdavStatus } from './errors.js'
import type { WebdavOptions } from './index.js'
import { ResourceUrls } from './resource-urls.js'
import { entryOf, revisionOf, type Properties } from './multistatus.js'
import { timeout, WebdavServer, type ResourceKind } from './server.js'

/** Milliseconds that an aborted write waits for its cleanup. After that, the cleanup continues in the background. */
const cleanupWait = 500
/**
 * Maximum number of entries that are buffered until the listing has described the folder itself. If it has not by then,
 * the folder is requested separately.
 */
const maxBuffered = 1000

export async function openWebdav(options: WebdavOptions, env: DriverEnv): Promise<Driver> {
  if (options.vendor === 'sharepoint') {
    throw new GatewayError('unsupported', {
      reason: 'signing in to SharePoint is not supported; the vendor must be other',
    })
  }
  const { username, password } = options
  if (username.includes(':')) throw new GatewayError('invalid', { reason: 'username must not contain a colon' })
  const address = parseServerAddress(options.address, 'address')
  const http = new HttpClient({
    server: serverName,
    address,
    credentials: { username, password },
    verifiesCertificate: !options.tls_insecure_skip_verify,
    egress: env.egress,
    pseudonym: pseudonymOf(env.instance),
  })
  const server = new WebdavServer(http, new ResourceUrls(address, options.root_folder_path))
  try {
    const { isFolder, available, used } = await server.statRoot(env.signal)
    if (isFolder !== true) throw new GatewayError('invalid', { reason: 'root_folder_path is not a folder' })
    const reportsUsage = available !== undefined && used !== undefined
    return new WebdavDriver({ http, server, env, observed: await observationsOf(address, env), reportsUsage })
  } catch (error) {
    http.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_path does not exist', cause: error })
      : toGatewayError(error)
  }
}

/** Stored observations about the server at this address, and their keys. */
async function observationsOf({ href }: URL, { state }: DriverEnv) {
  const [timesKey, sizeKey] = [`keeps times: ${href}`, `wants sizes: ${href}`]
  const [times, sizes] = [await state.get(timesKey), await state.get(sizeKey)]
  return { timesKey, sizeKey, acceptsTimes: times !== undefined, requiresSize: sizes !== undefined }
}

interface WebdavDependencies {
  readonly http: HttpClient
  readonly server: WebdavServer
  readonly env: DriverEnv
  readonly observed: Awaited<ReturnType<typeof observationsOf>>
  readonly reportsUsage: boolean
}

class WebdavDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly usage?: (options?: CallOptions) => Promise<Usage>
  readonly #server: WebdavServer
  readonly #bodies = new ResponseBodies(serverName, (error) => networkError(error, serverName))
  readonly #mutex = new KeyedMutex()
  readonly #stagedFiles: StagedFiles
  #requiresSize: boolean

  constructor(private readonly dependencies: WebdavDependencies) {
    const { server, env } = dependencies
    this.#server = server
    this.#stagedFiles = new StagedFiles({
      env,
      remove: (path, signal) => server.delete(path, 'file', signal),
      exclusively: (path, work, signal) => this.#mutex.run(path, work, signal),
      server: {
        move: (from, to, overwrite, signal) => server.move(from, to, 'file', overwrite, signal),
        find: async (path, signal) => versionOf(await this.#statOrUndefined(path, signal)),
        outcomeOf,
        timeout,
      },
    })
    const { acceptsTimes, requiresSize } = dependencies.observed
    this.#requiresSize = requiresSize
    // HTTP dates have a resolution of one second.
    this.traits = { ...(acceptsTimes && { timeStep: 1000 }), ...(requiresSize && { writeNeeds: 'size' }) }
    if (dependencies.reportsUsage) this.usage = ({ signal } = {}) => this.#usage(signal)
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    return entryOf(nameOf(path), await this.#stat(path, signal))
  }

  /**
   * Looks up a path. A missing root rejects with `unavailable`, because it may be a configuration error and must not
   * look like an empty storage. Below a file, servers respond with other errors than "not found"; those become
   * `not_found` too.
   */
  async #stat(path: Path, signal: AbortSignal | undefined): Promise<Properties> {
    try {
      return await this.#server.stat(path, signal)
    } catch (error) {
      if (path === '/') {
        if (!isGatewayError(error, 'not_found')) throw error
        throw new GatewayError('unavailable', { reason: 'root_folder_path does not exist', cause: error })
      }
      if (!isGatewayError(error, 'invalid', 'parent_missing', 'unsupported')) throw error
      const { isFolder } = await this.#stat(parentOf(path), signal)
      throw isFolder === true ? error : new GatewayError('not_found', { cause: error })
    }
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    let buffered: Entry[] = []
    let isFolder = false
    try {
      for await (const { itself, members } of this.#server.members(path, signal)) {
        if (itself && itself.isFolder !== true) throw new GatewayError('not_folder')
        isFolder ||= itself !== undefined
        const entries = members.filter(({ name }) => !this.#stagedFiles.isStaged(path, name))
        buffered.push(...entries.map(({ name, properties }) => entryOf(name, properties)))
        // Most servers describe the folder first. Entries that precede it are buffered.
        if (!isFolder && buffered.length > maxBuffered) {
          isFolder = (await this.#stat(path, signal)).isFolder === true
          if (!isFolder) throw new GatewayError('not_folder')
        }
        if (!isFolder || buffered.length === 0) continue
        yield buffered
        buffered = []
      }
      if (!isFolder)
        throw new GatewayError('unavailable', {
          reason: `the ${serverName} did not describe the folder in its listing`,
        })
    } catch (error) {
      if (isFolder || isGatewayError(error, 'not_folder', 'aborted', 'unavailable', 'timeout')) throw error
      // Some servers do not find a file by its URL with a trailing slash.
      if ((await this.#stat(path, signal)).isFolder !== true) throw new GatewayError('not_folder', { cause: error })
      throw error
    }
  }

  async read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    const { isFolder, size } = await this.#stat(path, signal)
    if (isFolder === true) throw new GatewayError('is_folder')
    const request = contentRequest(range, size, signal)
    if (!request) return Readable.from([], { objectMode: false })
    const answer = await this.#server.get(path, rangeHeader(request), signal)
    return contentOf(answer, request, this.#bodies, serverName)
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, modified } = options
    if (this.#requiresSize && source.size === undefined)
      throw new GatewayError('unsupported', { reason: 'the size must be known' })
    const old = await this.#replaceable(path, options)
    return this.#staged(path, options, old, async (staged) => {
      const body = new RequestBody(source, signal)
      const headers = await this.#server
        .put(staged, await sendable(body), modified, signal)
        .catch((error: unknown) => this.#putFailed(error, path, signal))
      if (modified && !this.dependencies.observed.acceptsTimes && headers['x-oc-mtime'] === 'accepted') {
        await this.dependencies.env.state.set(this.dependencies.observed.timesKey, 'yes')
      }
      const { size } = await this.#server.stat(staged, signal)
      if (size !== undefined && size !== body.sent) throw protocolViolation('did not store the whole file')
    })
  }

  /** Handles a failed PUT. Remembers if the server requires the size of a body. Always rejects. */
  async #putFailed(error: unknown, path: Path, signal: AbortSignal | undefined): Promise<never> {
    if (!hasDetail(error, 'size_required')) return this.#rejectRefined(error, path, signal)
    this.#requiresSize = true
    await this.dependencies.env.state.set(this.dependencies.observed.sizeKey, 'yes')
    throw error
  }

  /** Writes a staged file with `fill` and moves it to `path`. The old file is intact until the new one is stored. */
  async #staged(
    path: Path,
    options: WriteOptions,
    old: Properties | undefined,
    fill: (staged: Path) => Promise<void>,
  ): Promise<Entry> {
    const { signal, createOnly } = options
    const work = this.#stagedFiles.write(path, options, fill, async (move) => {
      if (createOnly === true) await this.#assertFree(path, signal)
      throwIfAborted(signal)
      await move(versionOf(old), createOnly !== true).catch((error: unknown) =>
        this.#rejectRefined(error, path, signal),
      )
      return this.stat(path, { signal })
    })
    return untilAborted(work, signal, { timeout: cleanupWait })
  }

  /**
   * Rejects with `exists` if `path` exists. Servers do not create atomically, so callers must hold the mutex of the
   * path.
   */
  async #assertFree(path: Path, signal: AbortSignal | undefined): Promise<void> {
    if (await this.#statOrUndefined(path, signal)) throw new GatewayError('exists')
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const make = async () => {
      await this.#assertFree(path, signal)
      await this.#server.makeFolder(path, signal).catch((error: unknown) => this.#rejectRefined(error, path, signal))
    }
    await this.#mutex.run(path, make, signal)
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const { isFolder } = await this.#stat(path, signal)
    // DELETE is recursive (RFC 4918 §9.6.1).
    if (isFolder === true) await this.#assertEmpty(path, signal)
    await this.#server.delete(path, isFolder === true ? 'folder' : 'file', signal)
  }

  async #assertEmpty(path: Path, signal: AbortSignal | undefined): Promise<void> {
    for await (const { members } of this.#server.members(path, signal)) {
      if (members.some(({ name }) => !isOrphan(name, this.dependencies.env.instance)))
        throw new GatewayError('not_empty')
    }
  }

  async removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.#server.delete(path, kindOf(await this.#stat(path, signal)), signal)
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    const kind = kindOf(await this.#stat(from, signal))
    const old = await this.#statOrUndefined(to, signal)
    if (old?.isFolder === true) throw new GatewayError('is_folder')
    if (old && kind === 'folder') throw new GatewayError('exists')
    try {
      await this.#server.move(from, to, kind, old !== undefined, signal)
    } catch (error) {
      throw await this.#refinedError(error, to, signal)
    }
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { signal, modified } = options
    const original = await this.#stat(from, signal)
    if (original.isFolder === true) throw new GatewayError('is_folder')
    const isAnotherTime = modified !== undefined && modified.getTime() !== original.modified?.getTime()
    if (this.dependencies.observed.acceptsTimes && isAnotherTime) throw new GatewayError('unsupported')
    const old = await this.#replaceable(to, options)
    await this.#staged(to, options, old, async (staged) => {
      await this.#server.copy(from, staged).catch((error: unknown) => this.#rejectRefined(error, to, signal))
    })
  }

  /** Supported if the server redirects downloads to another origin, such as an object store. */
  async directUrl(path: Path, { signal }: CallOptions = {}): Promise<DirectUrl> {
    const { isFolder } = await this.#stat(path, signal)
    if (isFolder === true) throw new GatewayError('is_folder')
    const target = await this.#server.redirectTarget(path, signal)
    if (!target) throw new GatewayError('unsupported', { reason: 'its URL requires the credentials of the storage' })
    return { url: target.href }
  }

  async #usage(signal: AbortSignal | undefined): Promise<Usage> {
    const { available, used } = await this.#server.statRoot(signal)
    if (available === undefined || used === undefined) throw new GatewayError('unsupported')
    return { total: available + used, used, free: available }
  }

  async close(): Promise<void> {
    this.#bodies.close()
    this.dependencies.http.close()
  }

  // Lookups

  /** Like `#stat`; undefined if nothing exists there. */
  async #statOrUndefined(path: Path, signal: AbortSignal | undefined): Promise<Properties | undefined> {
    return undefinedIfMissing(this.#stat(path, signal), 'parent_missing', 'not_folder')
  }

  /** The file that a write would replace. Rejects with `is_folder`, and with `exists` if `createOnly` is set. */
  async #replaceable(path: Path, { createOnly, signal }: WriteOptions): Promise<Properties | undefined> {
    const old = await this.#statOrUndefined(path, signal)
    if (old?.isFolder === true) throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  /**
   * Refines an error of a change at `path`: servers report a missing parent, and a concurrently created target, with
   * various statuses.
   */
  async #refinedError(error: unknown, path: Path, signal: AbortSignal | undefined): Promise<unknown> {
    if (isGatewayError(error, 'precondition_failed')) {
      const current = await this.#statOrUndefined(path, signal).catch(() => undefined)
      if (!current) {
        const reason = 'the server takes this name for that of another entry'
        return new GatewayError('invalid', { reason, cause: error })
      }
      return new GatewayError(current.isFolder === true ? 'is_folder' : 'exists', { cause: error })
    }
    if (!isGatewayError(error) || !(error.cause instanceof WebdavStatus)) return error
    if (isGatewayError(error, 'no_space', 'locked', 'too_large')) return error
    const parent = await this.#statOrUndefined(parentOf(path), signal).catch(() => ({ isFolder: true }))
    if (!parent) return new GatewayError('parent_missing', { cause: error })
    if (parent.isFolder !== true) return new GatewayError('not_folder', { cause: error })
    return error
  }

  async #rejectRefined(error: unknown, path: Path, signal: AbortSignal | undefined): Promise<never> {
    throw await this.#refinedError(error, path, signal)
  }
}

function kindOf({ isFolder }: Properties): ResourceKind {
  return isFolder === true ? 'folder' : 'file'
}

/** The version of a file: its ETag, or its size and modification time. */
function versionOf(file: Properties | undefined): FileVersion | undefined {
  if (!file) return undefined
  const { etag, size, modified, isFolder = false } = file
  return { identity: revisionOf(etag) ?? [size, modified?.getTime()].join(' '), size, isFolder }
}

/** The effect of a failed move: 'unknown' without a response, or if it came from a proxy or gateway. */
function outcomeOf(error: unknown): 'nothing' | 'failed' | 'unknown' {
  const status = error instanceof Error && error.cause instanceof WebdavStatus ? error.cause.status : undefined
  if (status === undefined || [408, 502, 504].includes(status)) return 'unknown'
  return status < 500 || [501, 503, 507].includes(status) ? 'nothing' : 'failed'
}
