/**
 * The API of a gateway of this family: what it answers about files, and its changes. Paths are those of its account.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { UrlClient } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { encodePath, nameOf, parentOf, type Path } from '../../src/base/path.js'
import type { ApiAnswer, ApiClient } from '../lib/json-api/api-client.js'
import { field, flagOf, listOf, numberOf, textOf, timeOf } from '../lib/json-api/lenient.js'
import type { OneShotBody } from '../lib/http/http-client.js'
import { protocolViolation } from './errors.js'

/** Milliseconds for a change that the server makes while the request waits. */
export const changeTimeout = 10 * 60_000

/** Milliseconds between two looks at a task. */
const taskInterval = 1000

/** States of a task that has ended without success: canceled, and failed. */
const failedStates = [4, 7]

interface GatewayApiOptions {
  /** The address with a trailing slash. */
  readonly address: URL
  readonly client: ApiClient<string>
  /** Password of folders; empty: none. */
  readonly folderPassword: string
}

/** A file or folder with what only the answer about a single one has. */
export interface FileDetails {
  readonly entry: Entry
  /** Download URL; empty for a folder. */
  readonly url: string
  /** Size and usage of the storage, of a mount point. */
  readonly usage: { readonly total: number; readonly used: number; readonly free: number } | undefined
}

export interface UploadFacts {
  readonly modified: Date | undefined
  readonly hashes: Entry['hashes']
}

export class GatewayApi {
  constructor(private readonly options: GatewayApiOptions) {}

  /** The address with a trailing slash. */
  get address(): URL {
    return this.options.address
  }

  /** The signed-in account. */
  async account(signal?: AbortSignal): Promise<{ readonly isGuest: boolean }> {
    const { data } = await this.#get('me', signal)
    return { isGuest: numberOf(field(data, 'data', 'role')) === 1 }
  }

  /** Whether the gateway lets guests mount it. */
  async allowsMounting(signal?: AbortSignal): Promise<boolean> {
    const { data } = await this.#get('public/settings', signal)
    return flagOf(field(data, 'data', 'allow_mounted'))
  }

  /** `client`: who will request the download URL. */
  async details(path: Path, signal?: AbortSignal, client: UrlClient = {}): Promise<FileDetails> {
    const { userAgent, address } = client
    const headers = {
      ...(userAgent !== undefined && { 'user-agent': userAgent }),
      ...(address !== undefined && { 'x-forwarded-for': address, 'x-real-ip': address }),
    }
    const { data } = await this.#read('fs/get', { path }, signal, headers)
    const item = field(data, 'data')
    const [total, used, free] = ['total_space', 'used_space', 'free_space'].map((name) =>
      numberOf(field(item, 'mount_details', name)),
    )
    return {
      entry: entryOf(nameOf(path), item),
      url: textOf(field(item, 'raw_url')),
      usage: total !== undefined && used !== undefined && free !== undefined ? { total, used, free } : undefined,
    }
  }

  /** The members of a folder, while they arrive. `refresh`: not from the cache of the gateway. */
  async *members(path: Path, refresh: boolean, signal?: AbortSignal): AsyncGenerator<readonly Entry[]> {
    const { client } = this.options
    const json = this.#fields({ path, page: 1, per_page: 0, refresh })
    const call = { url: this.#url('fs/list'), json, repeatable: true, signal, headers: this.#headers() }
    for await (const items of client.items(call, ['data', 'content'])) {
      yield items.map((item) => entryOf(textOf(field(item, 'name')), item))
    }
  }

  async makeFolder(path: Path, signal?: AbortSignal): Promise<void> {
    await this.#change('fs/mkdir', { path }, signal)
  }

  async rename(path: Path, name: string, overwrite: boolean, signal?: AbortSignal): Promise<void> {
    await this.#change('fs/rename', { path, name, overwrite }, signal)
  }

  /** Moves an entry to another folder. Resolves when it is there, also if the gateway makes tasks of it. */
  async move(path: Path, folder: Path, overwrite: boolean, signal?: AbortSignal): Promise<void> {
    const fields = { src_dir: parentOf(path), dst_dir: folder, names: [nameOf(path)], overwrite }
    const { data } = await this.#change('fs/move', fields, signal)
    for (const task of listOf(field(data, 'data', 'tasks')))
      await this.#taskDone(textOf(field(task, 'id')), path, signal)
  }

  /** Removes a file, or a folder with everything in it. A missing one is not an error. */
  async remove(path: Path, signal?: AbortSignal): Promise<void> {
    await this.#change('fs/remove', { dir: parentOf(path), names: [nameOf(path)] }, signal)
  }

  /** Stores a file. Replaces what is there, and creates missing folders. */
  async put(path: Path, body: string | OneShotBody, facts: UploadFacts, signal?: AbortSignal): Promise<void> {
    const { modified, hashes = {} } = facts
    const digests = (['md5', 'sha1', 'sha256'] as const).flatMap((name) => {
      const digest = hashes[name]
      return digest === undefined ? [] : [[`x-file-${name}`, digest] as const]
    })
    const headers = {
      ...this.#headers(),
      'content-type': 'application/octet-stream',
      'file-path': encodePath(path),
      ...(modified && { 'last-modified': String(modified.getTime()) }),
      ...(Object.fromEntries(digests) as Readonly<Record<string, string>>),
    }
    const { client } = this.options
    await client.call({ method: 'PUT', url: this.#url('fs/put'), headers, body, timeout: changeTimeout, signal })
  }

  /** Resolves when a task has moved `path` away. A task of a folder may succeed before those of its files. */
  async #taskDone(id: string, path: Path, signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      const state = await this.#taskState(id, signal)
      if (state !== undefined && failedStates.includes(state))
        throw protocolViolation('could not move it: a task failed')
      if ((await undefinedIfMissing(this.details(path, signal))) === undefined) return
      if (state === undefined) throw protocolViolation('did not move it')
      await sleep(taskInterval, undefined, { signal }).catch((error: unknown) => {
        throw new GatewayError('aborted', { cause: error })
      })
    }
  }

  /** Undefined if the gateway does not know the task any more. */
  async #taskState(id: string, signal: AbortSignal | undefined): Promise<number | undefined> {
    const url = this.#url('task/move/info')
    url.searchParams.set('tid', id)
    const call = this.options.client.call({ method: 'POST', url, repeatable: true, signal })
    const answer = await undefinedIfMissing(call)
    return answer && numberOf(field(answer.data, 'data', 'state'))
  }

  #get(path: string, signal: AbortSignal | undefined): Promise<ApiAnswer> {
    return this.options.client.call({ url: this.#url(path), signal })
  }

  #read(path: string, fields: object, signal: AbortSignal | undefined, headers: object): Promise<ApiAnswer> {
    const json = this.#fields(fields)
    const all = { ...this.#headers(), ...headers }
    return this.options.client.call({ url: this.#url(path), json, repeatable: true, signal, headers: all })
  }

  #change(path: string, json: object, signal: AbortSignal | undefined): Promise<ApiAnswer> {
    const headers = this.#headers()
    return this.options.client.call({ url: this.#url(path), json, timeout: changeTimeout, signal, headers })
  }

  /** The password of folders is a field of some calls, and a header of others. */
  #fields(fields: object): object {
    const { folderPassword: password } = this.options
    return password === '' ? fields : { ...fields, password }
  }

  #headers(): Readonly<Record<string, string>> {
    const { folderPassword: password } = this.options
    if (password === '') return {}
    // Other characters are sent differently by different clients. Browsers send the password in a cookie.
    return /^[!-~](?:[ -~]*[!-~])?$/.test(password)
      ? { password }
      : { cookie: `browser-password=${encodeURIComponent(password)}` }
  }

  #url(path: string): URL {
    return new URL(`api/${path}`, this.options.address)
  }
}

function entryOf(name: string, item: unknown): Entry {
  const modified = timeOf(field(item, 'modified')) ?? new Date(0)
  const created = timeOf(field(item, 'created'))
  const times = { modified, ...(created && +created !== +modified && { created }) }
  if (flagOf(field(item, 'is_dir'))) return { name, kind: 'folder', size: 0, ...times }
  const hashes = hashesOf(field(item, 'hash_info'))
  const revision = hashes?.sha256 ?? hashes?.sha1 ?? hashes?.md5
  const thumbnailUrl = textOf(field(item, 'thumb'))
  return {
    name,
    kind: 'file',
    size: Math.max(0, numberOf(field(item, 'size')) ?? 0),
    ...times,
    ...(revision !== undefined && { revision }),
    ...(hashes && { hashes }),
    ...(/^https?:\/\//.test(thumbnailUrl) && { thumbnailUrl }),
  }
}

const digits: Readonly<Record<string, number>> = { md5: 32, sha1: 40, sha256: 64 }

function hashesOf(info: unknown): Entry['hashes'] {
  if (typeof info !== 'object' || info === null) return undefined
  const known = Object.entries(info).flatMap(([name, value]) => {
    const digest = textOf(value).toLowerCase()
    const isDigest = /^[0-9a-f]{8,256}$/.test(digest) && digest.length === (digits[name] ?? digest.length)
    return isDigest ? [[name.toLowerCase(), digest] as const] : []
  })
  return known.length === 0 ? undefined : Object.fromEntries(known)
}
