/** Shares: what an account shows to whoever has the code, over two hosts. */
import type { Account } from './account.js'
import { textField, type Downloads } from './downloads.js'
import type { Drive, Item } from './drive.js'
import { seconds } from './files.js'
import { Answer, Refusal, type Call, type Handler } from './http-routes.js'

export interface Share {
  readonly code: string
  readonly receiveCode: string
  /** Ids of the shared files and folders. */
  readonly items: readonly string[]
  /** 1: valid; 7: expired; others: see the reference of the vendor. */
  state: number
  /** Whether the state of a valid share is a number, as that of an expired one is, and not a text. */
  hasNumericState: boolean
  /** The value of `state` in the answer about a share that is not valid. */
  answersInvalidWith: boolean
}

/** A larger page leads to a page of the firewall. */
const maxPage = 200

export class Shares {
  readonly #shares = new Map<string, Share>()
  /** Whether the newer host has the calls. */
  hasNewHost = true

  constructor(
    private readonly account: Account,
    private readonly drive: Drive,
    private readonly downloads: Downloads,
  ) {}

  /** Shares these items. */
  share(code: string, receiveCode: string, items: readonly string[]): Share {
    const share = { code, receiveCode, items, state: 1, hasNumericState: false, answersInvalidWith: true }
    this.#shares.set(code, share)
    return share
  }

  routes(): Readonly<Record<string, Readonly<Record<string, Handler>>>> {
    const onNewHost =
      (handler: Handler): Handler =>
      (call) => {
        return this.hasNewHost ? handler(call) : new Answer('404', 404)
      }
    return {
      'webapi.115.com': {
        'GET /share/snap': (call) => this.#snap(call),
        'POST /share/receive': (call) => this.#receive(call),
      },
      'proapi.115.com': {
        'POST /app/share/downurl': (call) => {
          this.account.assertSignedIn(call)
          return this.downloads.sealed(call, (payload) => this.#link((name) => textField(payload, name), call))
        },
      },
      '115cdn.com': {
        'GET /webapi/share/snap': onNewHost((call) => this.#snap(call)),
        'GET /webapi/share/downurl': onNewHost((call) => {
          this.account.assertSignedIn(call)
          const { data, cookie } = this.#link((name) => call.query.get(name) ?? '', call)
          const headers = { 'content-type': 'application/json', ...(cookie !== undefined && { 'set-cookie': cookie }) }
          return new Answer(JSON.stringify({ state: true, error: '', errno: 0, data }), 200, headers)
        }),
      },
    }
  }

  #snap({ query }: Call): unknown {
    const limit = Number(query.get('limit') ?? 20)
    if (limit > maxPage) return new Answer('<html>安全威胁/阻断</html>', 405, { 'content-type': 'text/html' })
    const share = this.#shareOf((name) => query.get(name) ?? '')
    if (share.state !== 1) return this.#invalid(share)
    const cid = query.get('cid') ?? ''
    const members = this.#members(share, cid)
    if (!members) throw new Refusal(4100013, '文件夹不存在')
    const offset = Number(query.get('offset') ?? 0)
    const list = members.slice(offset, offset + limit).map(shareItem)
    return { state: true, error: '', errno: 0, data: { ...this.#facts(share), count: members.length, list } }
  }

  #facts(share: Share) {
    const roots = share.items.flatMap((id) => this.drive.get(id) ?? [])
    const isValidText = share.state === 1 && !share.hasNumericState
    const share_state = isValidText ? String(share.state) : share.state
    return {
      userinfo: { user_id: '654321', user_name: 'bob', face: '' },
      shareinfo: {
        ...{ snap_id: '1', file_size: '0', share_title: roots[0]?.name ?? '', share_state, forbid_reason: '' },
        ...{ create_time: '1700000000', receive_code: share.receiveCode, receive_count: '0', expire_time: -1 },
        ...{ file_category: roots[0]?.content ? 1 : 0, auto_renewal: '0', can_report: 1 },
      },
      share_state,
      user_appeal: { can_appeal: 0 },
    }
  }

  #invalid(share: Share): unknown {
    const data = { ...this.#facts(share), count: 0, list: [] }
    if (share.answersInvalidWith) return { state: true, error: '', errno: 0, data }
    return {
      state: false,
      error: share.state === 7 ? '分享已过期' : '分享已取消',
      errno: share.state === 7 ? 4100010 : 4100009,
      data,
    }
  }

  #shareOf(field: (name: string) => string): Share {
    const share = this.#shares.get(field('share_code'))
    if (!share) throw new Refusal(4100026, '参数错误，分享不存在')
    const receiveCode = field('receive_code')
    if (receiveCode === '') throw new Refusal(4100012, '请输入访问码')
    if (receiveCode !== share.receiveCode) throw new Refusal(4100008, '错误的访问码')
    return share
  }

  /** The members of a folder of the share; undefined if it has no such folder. */
  #members(share: Share, folder: string): readonly Item[] | undefined {
    if (folder === '' || folder === '0') return share.items.flatMap((id) => this.drive.get(id) ?? [])
    return this.drive.isFolder(folder) && this.#contains(share, folder) ? this.drive.members(folder) : undefined
  }

  #contains({ items }: Share, id: string): boolean {
    return items.some((shared) => this.drive.isWithin(id, shared))
  }

  #link(field: (name: string) => string, call: Call) {
    const share = this.#shareOf(field)
    if (share.state !== 1) throw new Refusal(4100010, '分享已过期')
    const item = this.drive.get(field('file_id'))
    if (!item?.content || !this.#contains(share, item.id)) throw new Refusal(70005, '文件不存在或已删除。')
    const { url, cookie } = this.downloads.urlFor(item.content, item.name, call)
    const data = {
      fid: item.id,
      fn: item.name,
      fs: String(item.content.size),
      url: { url, client: 1, desc: null, isp: null },
    }
    return { data, ...(cookie !== undefined && { cookie }) }
  }

  #receive(call: Call): unknown {
    this.account.assertSignedIn(call)
    const { form } = call
    const share = this.#shareOf((name) => form.get(name) ?? '')
    const target = form.get('cid') ?? ''
    const items = (form.get('file_id') ?? '').split(',').flatMap((id) => this.drive.get(id) ?? [])
    const isAllowed = items.every((item) => this.#contains(share, item.id)) && this.drive.isFolder(target)
    if (form.get('user_id') !== this.account.id || items.length === 0 || !isAllowed)
      throw new Refusal(990002, '参数错误。')
    for (const item of items) this.drive.copy(item, target)
    return { state: true, error: '', errno: 0, data: [] }
  }
}

function shareItem({ id, parent, name, content, updated }: Item): unknown {
  const common = { n: name, t: String(seconds(updated)), fc: content ? 1 : 0 }
  if (!content) return { ...common, cid: id, pid: parent, s: 0, sha: '' }
  return { ...common, fid: id, cid: parent, s: String(content.size), sha: content.sha1, ico: '' }
}
