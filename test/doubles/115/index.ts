/**
 * A strict double of 115's web API, as far as the drivers `115 Cloud` and `115 Share` use it. Start it by `start115`;
 * the properties of its parts are switches for oddities and faults.
 */
import type { RequestListener } from 'node:http'
import type { Test } from 'tap'
import type { Elsewhere } from '../../driver-conformance/subject.js'
import { serveVendorHosts } from '../../servers/vendor-hosts.js'
import { Contents } from '../contents.js'
import { Requests } from '../requests.js'
import { Account } from './account.js'
import { downloadHost, Downloads } from './downloads.js'
import { Drive, rootId, type Item } from './drive.js'
import { FilesApi } from './files.js'
import { Answer, routed, type Handler } from './http-routes.js'
import { M115Server } from './m115.js'
import { Offline } from './offline.js'
import { Shares } from './shares.js'
import { region, Uploads } from './uploads.js'

interface Options115 {
  /** Milliseconds for which listings do not show a change. */
  readonly lag?: number
  /** Bytes of the smallest part but the last of an upload; default: 100 KiB, as the vendor has it. */
  readonly minPartSize?: number
  /** More calls in one second lead to a page of the firewall, for some seconds. Default: no limit. */
  readonly maxCallsPerSecond?: number
}

/** Hosts whose calls must come from the vendor's browser or program. */
const browserHosts = [
  'webapi.115.com',
  'web.api.115.com',
  'aps.115.com',
  'uplb.115.com',
  'lixian.115.com',
  '115cdn.com',
]
const firewallPage =
  '<!doctype html><html><title>405</title><body>很抱歉，由于您访问的URL有可能对网站造成安全威胁，您的访问被阻断。</body></html>'

export class Double115 {
  /** Requests to all hosts except those of the object store, which are in `uploads.oss.requests`. */
  readonly requests = new Requests()
  readonly contents: Contents
  readonly drive = new Drive()
  readonly account = new Account()
  readonly envelope = new M115Server()
  readonly downloads: Downloads
  readonly uploads: Uploads
  readonly offline: Offline
  readonly shares: Shares
  /** Environment variables for daemons, by which they reach the double and know its keys. */
  environment: Readonly<Record<string, string>> = {}
  #blockedUntil = 0
  #recent: number[] = []

  constructor(
    t: Test,
    private readonly options: Options115,
  ) {
    this.contents = new Contents(t)
    this.drive.lag = options.lag ?? 0
    this.downloads = new Downloads(this.account, this.drive, this.contents, this.envelope)
    this.uploads = new Uploads(this.account, this.drive, this.contents, options.minPartSize)
    this.offline = new Offline(this.account, this.drive, this.downloads)
    this.shares = new Shares(this.account, this.drive, this.downloads)
  }

  /** All calls are answered by a page of the firewall for so many milliseconds. */
  block(milliseconds: number): void {
    this.#blockedUntil = performance.now() + milliseconds
  }

  get hosts(): Readonly<Record<string, RequestListener>> {
    const files = new FilesApi(this.account, this.drive)
    const tables: Record<string, Record<string, Handler>> = {}
    for (const part of [this.account, files, this.downloads, this.uploads, this.offline, this.shares]) {
      for (const [host, routes] of Object.entries(part.routes())) {
        tables[host] = { ...tables[host], ...this.#behindFirewall(routes) }
      }
    }
    const listeners = Object.entries(tables).map(
      ([host, routes]) => [host, this.requests.observed(routed(routes))] as const,
    )
    return {
      ...Object.fromEntries(listeners),
      [downloadHost]: this.requests.observed(this.downloads.listener),
      [`*.${region}.aliyuncs.com`]: this.uploads.oss.listener,
    }
  }

  /** The item at a path, by the first of its name in each folder. Throws if there is none. */
  itemAt(path: string): Item {
    const found = this.#find(path)
    if (!found) throw new Error(`nothing at ${path}`)
    return found
  }

  /** Puts a file into a folder, which is created if it is missing, as another client would. */
  async putFile(path: string, content: string | Buffer): Promise<Item> {
    const { folder, name } = this.#split(path)
    return this.drive.add(folder, name, await this.contents.add(content))
  }

  makeFolder(path: string): string {
    let id = rootId
    for (const name of path.split('/').filter((segment) => segment !== '')) {
      const found = this.drive.members(id).find((item) => !item.content && item.name === name)
      id = found?.id ?? this.drive.add(id, name).id
    }
    return id
  }

  /** Changes by another client, below a folder. */
  elsewhere(root = ''): Elsewhere {
    return {
      replace: async (path, content) => {
        this.drive.remove(this.itemAt(root + path))
        await this.putFile(root + path, content)
      },
      replaceFolder: async (path, files) => {
        this.drive.remove(this.itemAt(root + path))
        this.makeFolder(root + path)
        for (const [name, content] of Object.entries(files)) await this.putFile(`${root}${path}/${name}`, content)
      },
      create: async (folder, name, content) => {
        this.drive.add(this.makeFolder(root + folder), name, await this.contents.add(content))
      },
    }
  }

  #find(path: string): Item | undefined {
    let item: Item | undefined
    for (const name of path.split('/').filter((segment) => segment !== '')) {
      item = this.drive.members(item?.id ?? rootId).find((member) => member.name === name)
      if (!item) return undefined
    }
    return item
  }

  #split(path: string): { readonly folder: string; readonly name: string } {
    const slash = path.lastIndexOf('/')
    return { folder: this.makeFolder(path.slice(0, slash)), name: path.slice(slash + 1) }
  }

  #behindFirewall(routes: Readonly<Record<string, Handler>>): Record<string, Handler> {
    const guarded =
      (handler: Handler): Handler =>
      (call) => {
        const isBrowser = /^Mozilla\/5\.0 .*115/.test(call.headers['user-agent'] ?? '')
        this.#count()
        if ((browserHosts.includes(call.host) && !isBrowser) || performance.now() < this.#blockedUntil) {
          return new Answer(firewallPage, 405, { 'content-type': 'text/html; charset=utf-8' })
        }
        return handler(call)
      }
    return Object.fromEntries(Object.entries(routes).map(([route, handler]) => [route, guarded(handler)]))
  }

  #count(): void {
    const { maxCallsPerSecond = Number.POSITIVE_INFINITY } = this.options
    const now = performance.now()
    this.#recent = [...this.#recent.filter((time) => now - time < 1000), now]
    if (this.#recent.length > maxCallsPerSecond) this.block(5000)
  }
}

/** Serves the double until the test ends, for this process and, with its `environment`, for daemons. */
export async function start115(t: Test, options: Options115 = {}): Promise<Double115> {
  const double = new Double115(t, options)
  const keys = {
    TIDEGATE_115_RSA_MODULUS: double.envelope.modulus,
    TIDEGATE_115_EC_PUBLIC: double.uploads.cipher.publicKey,
  }
  double.environment = { ...(await serveVendorHosts(t, double.hosts)), ...keys }
  const before = Object.keys(keys).map((name) => [name, process.env[name]] as const)
  Object.assign(process.env, keys)
  t.teardown(() => {
    for (const [name, value] of before) {
      if (value === undefined) Reflect.deleteProperty(process.env, name)
      else process.env[name] = value
    }
  })
  return double
}
