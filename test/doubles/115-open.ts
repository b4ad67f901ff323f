/**
 * A strict double of 115 Open, the official API of 115: tokens that rotate, files by ids, links that are bound to the
 * User-Agent, uploads by hash and proof to the object store, and offline downloads.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import type { Elsewhere } from '../driver-conformance/subject.js'
import { serveVendorHosts } from '../servers/vendor-hosts.js'
import { Account } from './115-open/account.js'
import { answerDone, answerRefusal, asNumberOrText, Refusal, refusals } from './115-open/answers.js'
import { Drive, rootFolder } from './115-open/drive.js'
import { FileCalls, required, type Call, type Done } from './115-open/files.js'
import { Links } from './115-open/links.js'
import { Offline } from './115-open/offline.js'
import { Uploads } from './115-open/uploads.js'
import { Contents } from './contents.js'
import { bodyOf, Requests } from './requests.js'

/** Bytes of the account. */
const space = 5_497_558_138_880

export class Open115 {
  readonly requests = new Requests()
  readonly account = new Account()
  readonly drive = new Drive()
  readonly contents: Contents
  readonly files: FileCalls
  readonly links: Links
  readonly uploads: Uploads
  readonly offline: Offline
  /** The environment of daemons that shall reach it. */
  environment: Readonly<Record<string, string>> = {}
  readonly #calls: Readonly<Record<string, Call>>

  constructor(t: Test) {
    this.contents = new Contents(t)
    this.files = new FileCalls(this.drive)
    this.links = new Links(this.drive, this.contents)
    this.uploads = new Uploads(this.account, this.drive, this.contents)
    this.offline = new Offline(this.drive)
    this.#calls = {
      ...this.files.calls,
      ...this.uploads.calls,
      ...this.offline.calls,
      'GET /open/user/info': () => this.#user(),
    }
  }

  get hosts(): Readonly<Record<string, RequestListener>> {
    const { requests, links, uploads } = this
    return {
      'proapi.115.com': requests.observed((request, response) => void this.#answer(request, response)),
      'passportapi.115.com': requests.observed((request, response) => void this.#signIn(request, response)),
      '*.115cdn.net': requests.observed(links.listener),
      '*.oss-cn-shenzhen.aliyuncs.com': uploads.oss.listener,
    }
  }

  /** Changes by another program, below the folder with this id. */
  elsewhere(root: string = rootFolder): Elsewhere {
    const { drive, contents } = this
    const folderAt = (path: string): string => {
      let id = root
      for (const name of path.split('/').filter((each) => each !== '')) {
        id = drive.members(id).findLast((node) => node.name === name)?.id ?? drive.create(id, name).id
      }
      return id
    }
    const create = async (path: string, content: string) => {
      const at = path.lastIndexOf('/')
      drive.create(folderAt(path.slice(0, at)), path.slice(at + 1), await contents.add(content))
    }
    return {
      replace: async (path, content) => {
        drive.remove(folderAt(path))
        await create(path, content)
      },
      replaceFolder: async (path, files) => {
        drive.remove(folderAt(path))
        for (const [relative, content] of Object.entries(files)) await create(`${path}/${relative}`, content)
      },
      create: async (folder, name, content) => {
        drive.create(folderAt(folder), name, await contents.add(content))
      },
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await refusing(response, async () => {
      const fields = await fieldsOf(request)
      const { pathname } = new URL(request.url ?? '', 'https://proapi.115.com')
      if (!this.account.isAuthorized(request.headers)) {
        throw new Refusal(this.account.expiredCode, refusals.accessToken().message)
      }
      const call = `${request.method ?? ''} ${pathname}`
      if (call === 'POST /open/ufile/downurl') return this.links.make(fields, request.headers['user-agent'])
      const own = Object.hasOwn(this.#calls, call) ? this.#calls[call] : undefined
      if (!own) throw refusals.unknownCall()
      return own(fields)
    })
  }

  async #signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await refusing(response, async () => {
      const fields = await fieldsOf(request)
      if (request.method !== 'POST' || request.url !== '/open/refreshToken') throw refusals.unknownCall()
      // The access token has expired: a client that sends it here does not know what it does.
      if (request.headers.authorization !== undefined) throw refusals.parameters()
      return { data: this.account.refresh(required(fields, 'refresh_token')) }
    })
  }

  #user(): Done {
    const used = [...this.drive.all()].reduce((sum, { content }) => sum + (content?.size ?? 0), 0)
    const size = (bytes: number) => ({ size: asNumberOrText(bytes), size_format: `${bytes}B` })
    const rt_space_info = { all_total: size(space), all_use: size(used), all_remain: size(space - used) }
    return { data: { user_id: this.account.userId, user_name: 'ann', rt_space_info } }
  }
}

/** Starts the double. It ends with the test. */
export async function startOpen115(t: Test): Promise<Open115> {
  const double = new Open115(t)
  double.environment = await serveVendorHosts(t, double.hosts)
  return double
}

/** The parameters of a request. The vendor refuses those that are empty, and bodies that are not forms. */
async function fieldsOf(request: IncomingMessage): Promise<URLSearchParams> {
  const body = (await bodyOf(request)).toString()
  const isForm = request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') === true
  if (body !== '' && !isForm) throw refusals.parameters()
  const { searchParams } = new URL(request.url ?? '', 'https://proapi.115.com')
  const fields = request.method === 'GET' ? searchParams : new URLSearchParams(body)
  if ([...fields.values()].includes('')) throw refusals.parameters()
  return fields
}

async function refusing(response: ServerResponse, work: () => Promise<Done>): Promise<void> {
  try {
    const { data, beside } = await work()
    answerDone(response, data, beside)
  } catch (error) {
    if (error instanceof Refusal) answerRefusal(response, error)
    else if (!response.destroyed) response.writeHead(500).end(String(error))
  }
}
