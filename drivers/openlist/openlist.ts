/** The driver `OpenList`: another gateway with the API of this family as a storage. */
import { Readable } from 'node:stream'
import { throwIfAborted, untilAborted } from '../../src/base/cancellation.js'
import type { DirectUrl, DirectUrlOptions, UrlClient, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { pageSize, type Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, isGatewayError, toGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { pseudonymOf } from '../../src/contract/own-requests.js'
import { childOf, cleanPath, nameOf, parentOf, siblingPathOf, under, type Path } from '../../src/base/path.js'
import { ApiClient } from '../lib/json-api/api-client.js'
import { field, textOf } from '../lib/json-api/lenient.js'
import { RateGate } from '../lib/json-api/rate-gate.js'
import { Renewal } from '../lib/json-api/renewal.js'
import { defaultUserAgent, drain, HttpClient } from '../lib/http/http-client.js'
import { contentOf, contentRequest, rangeHeader, type ContentRequest } from '../lib/http/http-content.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { networkError } from '../lib/network-errors.js'
import { RequestBody, sendable } from '../lib/http/request-body.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import { parseServerAddress } from '../lib/http/server-address.js'
import { StagedFiles, type FileVersion } from '../lib/staged-files/staged-files.js'
import { isOrphan } from '../lib/staged-files/staged-names.js'
import { isRefusal, meaningOf, OpenlistAnswer, protocolViolation, serverName } from './errors.js'
import { changeTimeout, GatewayApi } from './gateway-api.js'
import type { OpenlistOptions } from './index.js'

/** Milliseconds that an aborted write waits for its cleanup. After that, the cleanup continues in the background. */
const cleanupWait = 500

export async function openOpenlist(options: OpenlistOptions, env: DriverEnv): Promise<Driver> {
  try {
    return await openAt(options, env)
  } catch (error) {
    if (options.url.includes('://') || !isGatewayError(error, 'unavailable', 'timeout')) throw error
    const reason = `${error.reason} (url begins with neither http:// nor https://, so https:// was used)`
    throw new GatewayError(error.code, { reason, cause: error.cause })
  }
}

async function openAt(options: OpenlistOptions, env: DriverEnv): Promise<Driver> {
  const address = parseServerAddress(options.url, 'url')
  if (!address.pathname.endsWith('/')) address.pathname += '/'
  const client = await connect(address, options, env)
  const api = new GatewayApi({ address, client, folderPassword: options.meta_password })
  try {
    const { isGuest } = await api.account(env.signal)
    if (isGuest && !(await api.allowsMounting(env.signal))) {
      throw new GatewayError('denied', { detail: 'storage_refused', reason: 'the site does not allow mounted' })
    }
    const base = cleanPath(options.root_folder_path)
    const { entry, usage } = await api.details(base, env.signal)
    if (entry.kind !== 'folder') throw new GatewayError('invalid', { reason: 'root_folder_path is not a folder' })
    return new OpenlistDriver({ api, client, env, base, options, reportsUsage: usage !== undefined })
  } catch (error) {
    await client.close()
    throw isGatewayError(error, 'not_found')
      ? new GatewayError('invalid', { reason: 'root_folder_path does not exist', cause: error })
      : toGatewayError(error)
  }
}

/** The client, signed in as the options say: by the token, else by name and password, else as the guest. */
async function connect(address: URL, options: OpenlistOptions, env: DriverEnv): Promise<ApiClient<string>> {
  const { username, password, token } = options
  const pseudonym = pseudonymOf(env.instance)
  const http = new HttpClient({ server: serverName, address, verifiesCertificate: true, egress: env.egress, pseudonym })
  const scope = JSON.stringify([address.href, username])
  const gate = await RateGate.open({ server: serverName, scope, state: env.state })
  const signIn = async (): Promise<string> => {
    if (username === '') {
      const reason = `the ${serverName} does not accept the token of this storage`
      throw new GatewayError('denied', { detail: 'storage_refused', reason })
    }
    const url = new URL('api/auth/login', address)
    const answer = await client
      .call({ url, json: { username, password }, isAnonymous: true, repeatable: true })
      .catch((error: unknown) => {
        // Some gateways refuse a sign-in with 400.
        if (!isRefusal(error, 400)) throw error
        throw new GatewayError('denied', {
          reason: `the ${serverName} does not accept the credentials of this storage`,
          cause: error,
        })
      })
    const issued = textOf(field(answer.data, 'data', 'token'))
    if (issued === '') throw protocolViolation('issued no token')
    return issued
  }
  const renewal = await Renewal.open<string>({
    state: env.state,
    key: 'token',
    typed: JSON.stringify([address.href, username, password, token]),
    first: token === '' ? undefined : token,
    request: signIn,
  })
  const isGuest = username === '' && token === ''
  const client: ApiClient<string> = new ApiClient<string>({
    server: serverName,
    http,
    gate,
    credentials: isGuest ? undefined : { renewal, headers: (secret) => ({ authorization: secret }) },
    meaningOf: (answer, call) =>
      meaningOf(answer, isGuest ? 'guest' : call.isAnonymous === true ? 'signing in' : 'signed in'),
  })
  return client
}

interface OpenlistDependencies {
  readonly api: GatewayApi
  readonly client: ApiClient<string>
  readonly env: DriverEnv
  /** The root of the storage, as a path of the gateway's account. */
  readonly base: Path
  readonly options: OpenlistOptions
  readonly reportsUsage: boolean
}

class OpenlistDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly usage?: (options?: CallOptions) => Promise<Usage>
  readonly #api: GatewayApi
  readonly #bodies = new ResponseBodies(serverName, (error) => networkError(error, serverName))
  readonly #mutex = new KeyedMutex()
  readonly #stagedFiles: StagedFiles

  constructor(private readonly dependencies: OpenlistDependencies) {
    const { api, env, options } = dependencies
    this.#api = api
    this.traits = {
      urlsBoundTo: [
        ...(options.pass_ua_to_upsteam ? (['userAgent'] as const) : []),
        ...(options.pass_ip_to_upsteam ? (['address'] as const) : []),
      ],
    }
    if (dependencies.reportsUsage) this.usage = ({ signal } = {}) => this.#usage(signal)
    this.#stagedFiles = new StagedFiles({
      env,
      remove: (path, signal) => api.remove(this.#at(path), signal),
      exclusively: (path, work, signal) => this.#mutex.run(path, work, signal),
      server: {
        move: (from, to, overwrite, signal) => api.rename(this.#at(from), nameOf(to), overwrite, signal),
        find: async (path, signal) => versionOf(await this.#statOrUndefined(path, signal)),
        outcomeOf,
        timeout: changeTimeout,
      },
    })
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    const { entry } = await this.#details(path, signal)
    return { ...entry, name: nameOf(path) }
  }

  async *pages(path: Path, { signal, refresh = false }: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    const isPassedOn = refresh && this.dependencies.options.pass_refresh_flag_to_upsteam === true
    let page: Entry[] = []
    for await (const members of this.#members(path, isPassedOn, signal)) {
      for (const entry of members) {
        if (entry.name === '' || this.#stagedFiles.isStaged(path, entry.name)) continue
        page.push(entry)
        if (page.length < pageSize) continue
        yield page
        page = []
      }
    }
    if (page.length > 0) yield page
  }

  async *#members(path: Path, refresh: boolean, signal?: AbortSignal): AsyncGenerator<readonly Entry[]> {
    try {
      yield* this.#api.members(this.#at(path), refresh, signal)
    } catch (error) {
      // Only an account that may write there may refresh a folder. The answer comes before any entry.
      if (!refresh || !isGatewayError(error, 'denied')) throw this.#rootError(path, error)
      yield* this.#api.members(this.#at(path), false, signal)
    }
  }

  async read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    const { entry, url } = await this.#details(path, signal)
    if (entry.kind === 'folder') throw new GatewayError('is_folder')
    const request = contentRequest(range, entry.size, signal)
    if (!request) return Readable.from([], { objectMode: false })
    return this.#content(this.#urlOf(url), request)
  }

  async #content(url: URL, request: ContentRequest): Promise<Readable> {
    const range = rangeHeader(request)
    const { http } = this.dependencies.client
    const headers = range === undefined ? {} : { range }
    const response = await http.request({ method: 'GET', url, headers, signal: request.signal })
    const { status } = response
    if (status === 200 || status === 206) return contentOf(response, request, this.#bodies, serverName)
    await drain(response.body)
    if (status === 404 || status === 410) throw new GatewayError('not_found')
    if (status === 401 || status === 403) {
      throw new GatewayError('denied', { reason: `the ${serverName} refuses the download` })
    }
    throw protocolViolation(`answers a download with status ${status}`)
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, modified, createOnly } = options
    throwIfAborted(signal)
    await this.#assertParent(path, signal)
    await this.#replaceable(path, options)
    const body = new RequestBody(source, signal)
    const fill = async (staged: Path) => {
      const facts = { modified, hashes: source.hashes }
      await this.#api.put(this.#at(staged), await sendable(body), facts, signal)
      const { size } = await this.stat(staged, { signal })
      if (size !== body.sent) throw protocolViolation('did not store the whole file')
    }
    const work = this.#stagedFiles.write(path, options, fill, async (move) => {
      const old = await this.#replaceable(path, options)
      throwIfAborted(signal)
      await move(versionOf(old), createOnly !== true)
      const entry = await this.stat(path, { signal })
      // The name may lead to another file, on a storage that keeps several of one name.
      if (entry.size !== body.sent) throw protocolViolation('shows another file than the one that was stored')
      return entry
    })
    return untilAborted(work, signal, { timeout: cleanupWait })
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const make = async () => {
      await this.#assertParent(path, signal)
      if (await this.#statOrUndefined(path, signal)) throw new GatewayError('exists')
      await this.#api.makeFolder(this.#at(path), signal)
    }
    await this.#mutex.run(path, make, signal)
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const { kind } = await this.stat(path, { signal })
    // The call removes folders with everything in them. The other gateway's own cache must not hide what is in this
    // one.
    if (kind === 'folder') await this.#assertEmpty(path, signal)
    await this.#api.remove(this.#at(path), signal)
  }

  async #assertEmpty(path: Path, signal: AbortSignal | undefined): Promise<void> {
    for await (const members of this.#members(path, true, signal)) {
      const { instance } = this.dependencies.env
      if (members.some(({ name }) => !isOrphan(name, instance))) throw new GatewayError('not_empty')
    }
  }

  async removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    await this.stat(path, { signal })
    await this.#api.remove(this.#at(path), signal)
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    const { kind } = await this.stat(from, { signal })
    await this.#assertParent(to, signal)
    const old = await this.#statOrUndefined(to, signal)
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && kind === 'folder') throw new GatewayError('exists')
    const overwrite = old !== undefined
    if (parentOf(from) === parentOf(to)) await this.#api.rename(this.#at(from), nameOf(to), overwrite, signal)
    else if (nameOf(from) === nameOf(to))
      await this.#api.move(this.#at(from), this.#at(parentOf(to)), overwrite, signal)
    else await this.#moveAndRename(from, to, overwrite, signal)
  }

  /** The API moves or renames, not both: the entry has another free name between the two steps. */
  async #moveAndRename(from: Path, to: Path, overwrite: boolean, signal: AbortSignal | undefined): Promise<void> {
    const isFree = (await this.#statOrUndefined(childOf(parentOf(to), nameOf(from)), signal)) === undefined
    const renamed = isFree ? from : siblingPathOf(from, 'kept')
    const name = nameOf(renamed)
    if (!isFree) await this.#api.rename(this.#at(from), name, false, signal)
    const moved = childOf(parentOf(to), name)
    try {
      await this.#api.move(this.#at(renamed), this.#at(parentOf(to)), false, signal)
      await this.#api.rename(this.#at(moved), nameOf(to), overwrite, signal)
    } catch (error) {
      await this.#undoMove(from, renamed, moved)
      throw error
    }
  }

  /** Puts an entry back whose move has failed halfway. Never rejects. */
  async #undoMove(from: Path, renamed: Path, moved: Path): Promise<void> {
    const signal = AbortSignal.timeout(changeTimeout)
    try {
      if (await this.#statOrUndefined(moved, signal)) {
        await this.#api.move(this.#at(moved), this.#at(parentOf(from)), false, signal)
      }
      if (renamed !== from) await this.#api.rename(this.#at(renamed), nameOf(from), false, signal)
    } catch (error) {
      this.dependencies.env.log.warn({ err: error, path: from, moved }, 'a move has failed halfway')
    }
  }

  async directUrl(path: Path, { signal, userAgent, address }: DirectUrlOptions = {}): Promise<DirectUrl> {
    const { entry, url } = await this.#details(path, signal, { userAgent, address })
    if (entry.kind === 'folder') throw new GatewayError('is_folder')
    // It may be bound to the User-Agent that has asked for it.
    const isBound = this.traits.urlsBoundTo?.includes('userAgent') === true && userAgent === undefined
    return { url: this.#urlOf(url).href, ...(isBound && { headers: { 'user-agent': defaultUserAgent } }) }
  }

  async #usage(signal: AbortSignal | undefined): Promise<Usage> {
    const { usage } = await this.#api.details(this.#at('/' as Path), signal)
    if (!usage) throw new GatewayError('unsupported')
    return usage
  }

  async close(): Promise<void> {
    this.#bodies.close()
    await this.dependencies.client.close()
  }

  // Lookups

  #at(path: Path): Path {
    return under(this.dependencies.base, path)
  }

  async #details(path: Path, signal: AbortSignal | undefined, client?: UrlClient) {
    throwIfAborted(signal)
    return this.#api.details(this.#at(path), signal, client).catch((error: unknown) => {
      throw this.#rootError(path, error)
    })
  }

  /** A missing root may be a configuration error, and must not look like an empty storage. */
  #rootError(path: Path, error: unknown): unknown {
    if (path !== '/' || !isGatewayError(error, 'not_found')) return error
    return new GatewayError('unavailable', { reason: 'root_folder_path does not exist', cause: error })
  }

  #statOrUndefined(path: Path, signal: AbortSignal | undefined): Promise<Entry | undefined> {
    return undefinedIfMissing(this.stat(path, { signal }))
  }

  /** Rejects with `parent_missing` and `not_folder`: the calls would create missing folders. */
  async #assertParent(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const parent = await this.#statOrUndefined(parentOf(path), signal)
    if (!parent) throw new GatewayError('parent_missing')
    if (parent.kind !== 'folder') throw new GatewayError('not_folder')
  }

  /** The file that a write would replace. Rejects with `is_folder`, and with `exists` if `createOnly` is set. */
  async #replaceable(path: Path, { createOnly, signal }: WriteOptions): Promise<Entry | undefined> {
    const old = await this.#statOrUndefined(path, signal)
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  /** A download URL as the gateway reports it; some are paths. */
  #urlOf(text: string): URL {
    const address = this.#api.address.href
    if (!URL.canParse(text, address)) throw protocolViolation('sent no download URL')
    const url = new URL(text, address)
    if (!['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
      throw protocolViolation('sent a download URL that is not supported')
    }
    return url
  }
}

function versionOf(entry: Entry | undefined): FileVersion | undefined {
  if (!entry) return undefined
  const { revision, size, modified } = entry
  return { identity: revision ?? [size, modified.getTime()].join(' '), size }
}

/** The effect of a failed rename: 'unknown' without an answer, or if the gateway does not know it either. */
function outcomeOf(error: unknown): 'nothing' | 'failed' | 'unknown' {
  const answer = error instanceof Error ? error.cause : undefined
  if (!(answer instanceof OpenlistAnswer) || answer.code === 504) return 'unknown'
  return isRefusal(error, 400, 401, 403, 404, 405, 412, 423, 503, 507) ? 'nothing' : 'failed'
}
