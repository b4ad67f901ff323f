/**
 * Torrents and magnet links as they are handed to programs that connect by themselves: without trackers, web seeds and other hosts
 * that the gateway would not connect to (BEP 3, 5, 9, 12, 17, 19). What is to be fetched, and so its hash, stays the same.
 */
import { GatewayError } from '../errors.js'
import { parsedUrl } from './http-request.js'

/** Whether a program may be told of this host. */
export type MayReach = (url: URL) => Promise<boolean>

const schemes: ReadonlySet<string> = new Set(['http:', 'https:', 'udp:', 'ws:', 'wss:'])
/** Hosts of one torrent that are looked at; what else it names is left out. */
const mostHosts = 100

/** Those that may be reached, in their order. */
async function reachable(addresses: readonly string[], mayReach: MayReach): Promise<ReadonlySet<string>> {
  const asked = [...new Set(addresses)].slice(0, mostHosts).map(async (address) => {
    const url = parsedUrl(address)
    const isGood = url && schemes.has(url.protocol) && url.username === '' && url.password === ''
    return isGood && (await mayReach(url)) ? [address] : []
  })
  return new Set((await Promise.all(asked)).flat())
}

/** Parameters of a magnet link that name hosts: trackers, web seeds, other sources. */
const hostParameters: ReadonlySet<string> = new Set(['tr', 'ws', 'as', 'xs'])
const keptParameters: ReadonlySet<string> = new Set(['xt', 'dn', 'xl', 'so'])

/** Rejects with `invalid` for what is no link to a torrent. */
export async function harmlessMagnet(link: string, mayReach: MayReach): Promise<string> {
  const query = new URLSearchParams(link.replace(/^magnet:\?/i, ''))
  const topics = query.getAll('xt').filter((topic) => /^urn:bt(ih|mh):[0-9a-z]+$/i.test(topic))
  if (topics.length === 0) throw new GatewayError('invalid', { reason: 'the magnet link names no torrent' })
  const plainName = (key: string) => key.replace(/\.\d+$/, '')
  const named = [...query].filter(([key]) => hostParameters.has(plainName(key)))
  const good = await reachable(
    named.map(([, value]) => value),
    mayReach,
  )
  const kept = [...query].filter(([key, value]) => {
    if (key === 'xt') return topics.includes(value)
    return keptParameters.has(key) || (hostParameters.has(plainName(key)) && good.has(value))
  })
  // The topic has colons that not every program reads percent-encoded.
  const written = kept.map(([key, value]) => `${key}=${key === 'xt' ? value : encodeURIComponent(value)}`)
  return `magnet:?${written.join('&')}`
}

/** Keys of a torrent that name no host, or whose hosts are looked at. */
const keptKeys: ReadonlySet<string> = new Set([
  ...['announce', 'announce-list', 'comment', 'created by', 'creation date', 'encoding', 'httpseeds', 'info'],
  ...['piece layers', 'url-list'],
])

/** Rejects with `invalid` for what is no torrent. */
export async function harmlessTorrent(file: Buffer, mayReach: MayReach): Promise<Buffer> {
  const members = membersOf(file)
  if (!members.has('info')) throw notTorrent()
  const value = (key: string): Value | undefined => {
    const bytes = members.get(key)
    return bytes && new Bencoded(bytes).value()
  }
  const tiers = listOf(value('announce-list')).map((tier) => textsOf(tier))
  const single = textsOf(value('announce'))
  const seeds = { 'url-list': textsOf(value('url-list')), httpseeds: textsOf(value('httpseeds')) }
  const good = await reachable([...single, ...tiers.flat(), ...Object.values(seeds).flat()], mayReach)
  const kept = new Map([...members].filter(([key]) => keptKeys.has(key)))
  const put = (key: string, addresses: readonly Value[], as: (all: readonly Value[]) => Value) => {
    if (addresses.length > 0) kept.set(key, encoded(as(addresses)))
    else kept.delete(key)
  }
  const isGood = (address: string) => good.has(address)
  put('announce', single.filter(isGood).map(bytesOf), ([first]) => first ?? Buffer.alloc(0))
  const goodTiers = tiers.map((tier) => tier.filter(isGood).map(bytesOf)).filter((tier) => tier.length > 0)
  put('announce-list', goodTiers, (all) => all)
  for (const [key, addresses] of Object.entries(seeds)) put(key, addresses.filter(isGood).map(bytesOf), (all) => all)
  const parts = [...kept].sort(([one], [other]) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  const written = parts.flatMap(([key, bytes]) => [encoded(Buffer.from(key)), bytes])
  return Buffer.concat([Buffer.from('d'), ...written, Buffer.from('e')])
}

/** Values of its outermost dictionary, each as its own bytes. */
function membersOf(file: Buffer): ReadonlyMap<string, Buffer> {
  return new Bencoded(file).members()
}

type Value = number | Buffer | readonly Value[]

function listOf(value: Value | undefined): readonly Value[] {
  return Array.isArray(value) ? (value as readonly Value[]) : []
}

/** Of a text, or of a list of texts. */
function textsOf(value: Value | undefined): readonly string[] {
  const all = Buffer.isBuffer(value) ? [value] : listOf(value)
  return all.filter((each) => Buffer.isBuffer(each)).map((each) => each.toString())
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text)
}

function encoded(value: Value): Buffer {
  if (typeof value === 'number') return Buffer.from(`i${value}e`)
  if (Buffer.isBuffer(value)) return Buffer.concat([Buffer.from(`${value.length}:`), value])
  const all = value
  return Buffer.concat([Buffer.from('l'), ...all.map(encoded), Buffer.from('e')])
}

function notTorrent(): GatewayError {
  return new GatewayError('invalid', { reason: 'this is no torrent' })
}

/** Dictionaries and lists within one another. */
const deepest = 32

/** Reads bencoding (BEP 3). Rejects with `invalid` for what is none. */
class Bencoded {
  #at = 0

  constructor(private readonly bytes: Buffer) {}

  /** The outermost dictionary; nothing may follow it. */
  members(): ReadonlyMap<string, Buffer> {
    const found = new Map<string, Buffer>()
    this.#take('d')
    while (!this.#ends()) {
      const key = this.#text().toString('latin1')
      const from = this.#at
      this.#pass(0)
      found.set(key, this.bytes.subarray(from, this.#at))
    }
    if (this.#at !== this.bytes.length) throw notTorrent()
    return found
  }

  /** Dictionaries in it are left out. */
  value(): Value {
    return this.#value(0)
  }

  #value(depth: number): Value {
    if (depth > deepest) throw notTorrent()
    const kind = this.#kind()
    if (kind === 'i') return this.#integer()
    if (kind !== 'l' && kind !== 'd') return this.#text()
    if (kind === 'd') {
      this.#pass(depth)
      return []
    }
    const all: Value[] = []
    this.#take('l')
    while (!this.#ends()) all.push(this.#value(depth + 1))
    return all
  }

  #pass(depth: number): void {
    if (depth > deepest) throw notTorrent()
    const kind = this.#kind()
    if (kind === 'i') this.#integer()
    else if (kind === 'l' || kind === 'd') {
      this.#take(kind)
      while (!this.#ends()) this.#pass(depth + 1)
    } else this.#text()
  }

  #kind(): string {
    return String.fromCharCode(this.bytes[this.#at] ?? 0)
  }

  #take(kind: string): void {
    if (this.#kind() !== kind) throw notTorrent()
    this.#at += 1
  }

  /** Takes the end of a list or dictionary, where it is here. */
  #ends(): boolean {
    if (this.#at >= this.bytes.length) throw notTorrent()
    if (this.#kind() !== 'e') return false
    this.#at += 1
    return true
  }

  #integer(): number {
    this.#take('i')
    return this.#digits('e', /^-?\d{1,16}$/)
  }

  #text(): Buffer {
    const length = this.#digits(':', /^\d{1,9}$/)
    const from = this.#at
    this.#at += length
    if (this.#at > this.bytes.length) throw notTorrent()
    return this.bytes.subarray(from, this.#at)
  }

  #digits(end: string, form: RegExp): number {
    const near = this.bytes.toString('latin1', this.#at, this.#at + 20)
    const [digits = ''] = near.split(end)
    if (digits.length === near.length || !form.test(digits)) throw notTorrent()
    this.#at += digits.length + 1
    return Number(digits)
  }
}
