/** The calls of 115 about a share: what is in it, and its download links. */
import { GatewayError, isGatewayError, toGatewayError } from '../../src/base/errors.js'
import type { VendorOptions } from '../lib/cloud/id-vendor.js'
import { field, listOf, numberOf } from '../lib/json-api/lenient.js'
import { Members } from '../lib/cloud/members.js'
import { errorOf, isSuccess, protocolViolation } from './errors.js'
import { sharedItem, type Item115 } from './items.js'
import { linkOf, type Link } from './links.js'
import type { WebSession } from './web-session.js'

export interface ShareAccess {
  readonly shareCode: string
  readonly receiveCode: string
  /** Entries of one answer. */
  readonly pageSize: number
}

interface SharePage {
  readonly items: readonly Item115[]
  /** Number of entries that the server sent; `items` leaves out those of unknown kinds. */
  readonly received: number
  /** Number of entries of the whole folder; undefined if the server does not say. */
  readonly count: number | undefined
}

/** The states of a share that cannot be read. */
const states: Readonly<Record<number, string>> = {
  0: 'share is being checked',
  2: 'share rejected',
  3: 'share rejected',
  4: 'share cancelled',
  5: 'share deleted',
  6: 'share rejected',
  7: 'share expired',
  8: 'share is being made',
  9: 'share failed',
  11: 'share rejected',
}
/** The state of a share that can be read. */
const readableState = 1
/** Begins the reason of every error about the contents of a share: clients look for it. */
const snapFailed = 'failed to get share snap'
const newHost = 'https://115cdn.com/webapi'
const oldHost = 'https://webapi.115.com'

export class ShareApi {
  /** The hosts of newer clients do not answer. */
  #usesOldHost = false

  constructor(
    private readonly session: WebSession,
    private readonly options: ShareAccess,
  ) {}

  /** All entries of a folder; an empty id is that of the whole share. Rejects with `not_found`. */
  async list(folderId: string, signal?: AbortSignal): Promise<readonly Item115[]> {
    const found = new Members<Item115>()
    for (;;) {
      const { items, received, count } = await this.snap(folderId, found.received, signal)
      found.add(items, received)
      if (received === 0 || (count !== undefined && found.received >= count)) return found.all
    }
  }

  /** One page of a folder. The reasons of its errors begin with `failed to get share snap`. */
  async snap(folderId: string, offset = 0, signal?: AbortSignal): Promise<SharePage> {
    try {
      return await this.#preferNewHost(
        () => this.#snapFrom(newHost, folderId, offset, signal),
        () => this.#snapFrom(oldHost, folderId, offset, signal),
      )
    } catch (error) {
      const { code, reason, retryAfter } = toGatewayError(error)
      if (code === 'not_found' || code === 'aborted') throw error
      throw new GatewayError(code, { reason: `${snapFailed}: ${reason}`, retryAfter, cause: error })
    }
  }

  /**
   * The link of a file, for a client with this User-Agent. Rejects like `linkOf`, and with `not_found`. For others than
   * our own, by the older call: the newer host takes calls from browsers of 115 only.
   */
  async link(fileId: string, userAgent: string, { signal }: VendorOptions): Promise<Link | undefined> {
    const query = this.#fileQuery(fileId)
    const newer = async () => {
      const { data, headers } = await this.session.call({ url: withQuery(`${newHost}/share/downurl`, query), signal })
      return linkOf(field(data, 'data'), headers['set-cookie'])
    }
    const older = async () => {
      const address = 'https://proapi.115.com/app/share/downurl'
      const options = { userAgent, repeatable: true, signal }
      const { data, headers } = await this.session.sealedCall(address, query, options)
      return linkOf(data, headers['set-cookie'])
    }
    return userAgent === this.session.userAgent ? this.#preferNewHost(newer, older) : older()
  }

  #fileQuery(fileId: string) {
    const { shareCode, receiveCode } = this.options
    return { share_code: shareCode, receive_code: receiveCode, file_id: fileId }
  }

  async #snapFrom(host: string, folderId: string, offset: number, signal: AbortSignal | undefined): Promise<SharePage> {
    const { shareCode, receiveCode, pageSize } = this.options
    const query = { share_code: shareCode, receive_code: receiveCode, cid: folderId, offset, limit: pageSize }
    const url = withQuery(`${host}/share/snap`, query)
    // For an expired share, some answers say that the call has failed.
    const { data } = await this.session.call({ url, signal, accepts: (answer) => stateOf(answer) !== undefined })
    const state = stateOf(data)
    if (state !== undefined && state !== readableState) {
      const what = states[state] ?? 'share cannot be read'
      throw new GatewayError('denied', { reason: `${what} (state ${state})` })
    }
    if (!isSuccess(data)) throw errorOf(data)
    const list = field(data, 'data', 'list')
    if (list === undefined) throw protocolViolation('sent no list of the share')
    const received = listOf(list)
    const items = received.flatMap((each) => sharedItem(each) ?? [])
    // For a folder that does not exist, the server may list the whole share.
    if (folderId !== '' && items.some(({ parent }) => parent !== '' && parent !== folderId)) {
      throw new GatewayError('not_found')
    }
    return { items, received: received.length, count: numberOf(field(data, 'data', 'count')) }
  }

  /** Calls `older` if `newer` does not work, and from then on. */
  async #preferNewHost<T>(newer: () => Promise<T>, older: () => Promise<T>): Promise<T> {
    if (this.#usesOldHost) return older()
    try {
      return await newer()
    } catch (error) {
      // In a pause that the server has asked for, no host is called.
      if (!isGatewayError(error, 'unavailable', 'timeout') || error.retryAfter !== undefined) throw error
      const result = await older()
      this.#usesOldHost = true
      return result
    }
  }
}

function withQuery(address: string, query: Readonly<Record<string, string | number>>): URL {
  const url = new URL(address)
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, String(value))
  return url
}

/** The state of the share in an answer, which is a number or a text. */
function stateOf(data: unknown): number | undefined {
  return numberOf(field(data, 'data', 'shareinfo', 'share_state')) ?? numberOf(field(data, 'data', 'share_state'))
}
