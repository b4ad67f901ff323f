/** One remote: its abilities, and operations on its files and folders by the remote control of rclone. */
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Usage } from '../../src/contract/capabilities.js'
import { GatewayError, toGatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import { readItems } from '../lib/json-api/json-items.js'
import type { HttpResponse } from '../lib/http/http-client.js'
import { networkError } from '../lib/network-errors.js'
import { itemOf, type Item } from './entry.js'
import type { OneTimeBody } from './one-time-sources.js'
import type { RcloneProcess } from './process.js'
import { failureOf, lengthyTimeout, serverName, type CallLimits, type RemoteControl } from './remote-control.js'

type Signal = AbortSignal | undefined

/** Milliseconds that rclone has to discard an upload whose body has failed, until its call is canceled. */
const discardTimeout = 3000

/** What `operations/fsinfo` reports of a remote. Features that a version of rclone does not know are absent. */
export interface RemoteFacts {
  readonly name: string
  /** Path of the remote's folder. Of a remote on this machine: of the folder itself. */
  readonly root: string
  /** Nanoseconds. Remotes that store no times report a hundred years. */
  readonly precision: number
  readonly hashes: readonly string[]
  /** Names of the features that the remote has. */
  readonly features: ReadonlySet<string>
}

export class Remote {
  #isClosed = false

  constructor(
    private readonly process: RcloneProcess,
    /** `name:folder`. */
    readonly fs: string,
    /** Names of hashes to request with entries. */
    private readonly hashes: readonly string[] = [],
  ) {}

  /** Rejects all later calls. The process may have other users. */
  close(): void {
    this.#isClosed = true
  }

  /** Facts about a remote, by default about this one. */
  async facts(signal: Signal, fs = this.fs): Promise<RemoteFacts> {
    const answer = (await this.#call('operations/fsinfo', { fs }, { signal })) as {
      readonly Name: string
      readonly Root: string
      readonly Precision: number
      readonly Hashes: readonly string[] | null
      readonly Features: Readonly<Record<string, boolean>>
    }
    return {
      name: answer.Name,
      root: answer.Root,
      precision: answer.Precision,
      hashes: answer.Hashes ?? [],
      features: new Set(Object.entries(answer.Features).flatMap(([name, isThere]) => (isThere ? [name] : []))),
    }
  }

  /** The sections of the configuration, with all their options and secrets. */
  async configuration(signal: Signal): Promise<Readonly<Record<string, Readonly<Record<string, string>>>>> {
    return (await this.#call('config/dump', {}, { signal })) as Record<string, Record<string, string>>
  }

  /** The file or folder, undefined if there is none. For most remotes rclone lists the parent to find a folder. */
  async find(path: Path, signal: Signal): Promise<Item | undefined> {
    return this.#stat(path, {}, signal)
  }

  /** The file, undefined if there is none. */
  async findFile(path: Path, signal: Signal): Promise<Item | undefined> {
    return path === '/' ? undefined : this.#stat(path, { filesOnly: true }, signal)
  }

  async #stat(path: Path, options: object, signal: Signal): Promise<Item | undefined> {
    const parameters = { fs: this.fs, remote: wire(path), opt: { ...this.#entryOptions, ...options } }
    const { item } = (await this.#call('operations/stat', parameters, { signal })) as { readonly item: unknown }
    return item === null || item === undefined ? undefined : itemOf(item)
  }

  /** Yields the members of a folder, in groups as they arrive. */
  async *members(path: Path, signal: Signal): AsyncGenerator<readonly Item[]> {
    const parameters = { fs: this.fs, remote: wire(path), opt: this.#entryOptions }
    const limits = { signal, timeout: lengthyTimeout }
    const { body } = await this.#within(signal, (control) => control.stream('operations/list', parameters, limits))
    try {
      for await (const items of readItems(body, ['list'])) yield items.map(itemOf)
    } catch (error) {
      throw translated(error, signal)
    } finally {
      body.destroy()
    }
  }

  async get(path: Path, range: string | undefined, signal: Signal): Promise<HttpResponse> {
    return this.#within(signal, (control) => control.get(this.fs, wire(path), range, { signal }))
  }

  /**
   * Stores the body at `to`: rclone fetches it from an address of its own. Resolves to its length when rclone reports
   * that it is stored. Rejects with the error of the body or of `beforeEnd` if one of them has failed, otherwise with
   * that of rclone. After that nothing is stored, or a part under the name `to`.
   */
  async upload(to: Path, offered: OneTimeBody): Promise<number> {
    const { source, signal } = offered
    throwIfAborted(signal)
    const body = await this.process.sources.offer(offered)
    const canceled = new AbortController()
    let timer: NodeJS.Timeout | undefined
    const stop = () => {
      body.close()
      timer ??= setTimeout(() => canceled.abort(), discardTimeout)
    }
    signal?.addEventListener('abort', stop, { once: true })
    body.sent.catch(stop)
    try {
      // By default rclone holds back the beginning of a body without a length, which may be all of it.
      const config = source.size === undefined && { _config: { StreamingUploadCutoff: 0 } }
      const parameters = { fs: this.fs, remote: wire(to), url: body.url, autoFilename: false, ...config }
      await this.#call('operations/copyurl', parameters, { signal: canceled.signal, timeout: lengthyTimeout })
      return await body.sent
    } catch (error) {
      if (signal?.aborted) throw new GatewayError('aborted', { cause: error })
      if (body.hasSourceFailed()) await body.sent
      throw error
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', stop)
      body.close()
    }
  }

  /** Renames a file. The new name must be free: rclone would remove a file there before the renaming. */
  async moveFile(from: Path, to: Path): Promise<void> {
    await this.#transfer('operations/movefile', from, to, undefined)
  }

  /** Copies a file within the remote. The new name must be free. */
  async copyFile(from: Path, to: Path, signal: Signal): Promise<void> {
    await this.#transfer('operations/copyfile', from, to, signal)
  }

  async #transfer(command: string, from: Path, to: Path, signal: Signal): Promise<void> {
    // Without IgnoreTimes, a source that looks like the target is thrown away, on some remotes by its size alone.
    const parameters = {
      srcFs: this.fs,
      srcRemote: wire(from),
      dstFs: this.fs,
      dstRemote: wire(to),
      _config: { IgnoreTimes: true },
    }
    await this.#call(command, parameters, { signal, timeout: lengthyTimeout })
  }

  /**
   * Moves a folder. The new name must be free. A remote that refuses to move this folder has its files moved one by one
   * by rclone, which does not replace files that another client creates meanwhile.
   */
  async moveFolder(from: Path, to: Path): Promise<void> {
    const parameters = { srcFs: this.#below(from), dstFs: this.#below(to), _config: { IgnoreExisting: true } }
    await this.#call('sync/move', { ...parameters, deleteEmptySrcDirs: true }, { timeout: lengthyTimeout })
  }

  #below(path: Path): string {
    return this.fs.endsWith(':') || this.fs.endsWith('/') ? this.fs + wire(path) : this.fs + path
  }

  async makeFolder(path: Path, signal: Signal): Promise<void> {
    await this.#call('operations/mkdir', { fs: this.fs, remote: wire(path) }, { signal })
  }

  async removeFile(path: Path, signal: Signal): Promise<void> {
    await this.#call('operations/deletefile', { fs: this.fs, remote: wire(path) }, { signal })
  }

  async removeEmptyFolder(path: Path, signal: Signal): Promise<void> {
    await this.#call('operations/rmdir', { fs: this.fs, remote: wire(path) }, { signal })
  }

  /** Undefined if the remote does not report enough. */
  async usage(signal: Signal): Promise<Usage | undefined> {
    const answer = await this.#call('operations/about', { fs: this.fs }, { signal })
    // Bytes; each is absent if the remote does not report it.
    const { total, used, free } = answer as { readonly total?: number; readonly used?: number; readonly free?: number }
    const all = total ?? (used !== undefined && free !== undefined ? used + free : undefined)
    const taken = used ?? (all !== undefined && free !== undefined ? all - free : undefined)
    if (all === undefined || taken === undefined) return undefined
    return { total: all, used: taken, free: Math.max(0, Math.min(free ?? Infinity, all - taken)) }
  }

  get #entryOptions(): object {
    const hashes = this.hashes.length > 0 && { showHash: true, hashTypes: this.hashes }
    return { noMimeType: true, ...hashes }
  }

  #call(command: string, parameters: object, limits: CallLimits): Promise<unknown> {
    return this.#within(limits.signal, (control) => control.call(command, parameters, limits))
  }

  async #within<T>(signal: Signal, work: (control: RemoteControl) => Promise<T>): Promise<T> {
    throwIfAborted(signal)
    if (this.#isClosed) throw new GatewayError('unavailable', { reason: 'the storage was closed' })
    try {
      return await work(await this.process.control(signal))
    } catch (error) {
      throw translated(error, signal)
    }
  }
}

/** Whether rclone reports that the file or folder does not exist. */
export function isMissing(error: unknown): boolean {
  return failureOf(error)?.status === 404
}

/** The error of a call or a response, as a GatewayError. */
export function translated(error: unknown, signal: Signal): GatewayError {
  if (signal?.aborted) return new GatewayError('aborted', { cause: error })
  return error instanceof SyntaxError
    ? new GatewayError('unavailable', { reason: `the ${serverName} sent an invalid response`, cause: error })
    : toGatewayError(networkError(error, serverName))
}

function wire(path: Path): string {
  return path.slice(1)
}

/** Types of remotes that make several objects of one file, or change a name in several steps. */
const divisiveTypes = ['cache', 'chunker', 'compress', 'union']

/**
 * Whether an upload is published when all of it has arrived. Shares of SMB are buckets to rclone, too, but have
 * folders; and so have object stores with markers for folders, which are treated like them. `remotes`: all that the
 * remote is made of.
 */
export function isObjectStore(
  { features }: RemoteFacts,
  remotes: readonly RemoteFacts[],
  sections: Awaited<ReturnType<Remote['configuration']>>,
): boolean {
  const isDivisive = ({ name }: RemoteFacts) => divisiveTypes.includes(sections[name]?.type ?? '')
  return features.has('BucketBased') && !features.has('CanHaveEmptyDirectories') && !remotes.some(isDivisive)
}
