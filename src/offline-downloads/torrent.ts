/**
 * Sanitizes torrents and magnet links for download programs, which open their own connections: removes trackers, web
 * seeds and other hosts that the egress guard denies (BEP 3, 5, 9, 12, 17, 19). The info dictionary, and so the info
 * hash, is unchanged.
 */
import { GatewayError } from '../base/errors.js'
import { decodeUtf8, isDecoded } from '../base/utf8.js'
import { parseUrl } from '../net/web-address.js'

/** Resolves to whether the egress guard allows this host. */
type HostCheck = (url: URL) => Promise<boolean>

const schemes: ReadonlySet<string> = new Set(['http:', 'https:', 'udp:', 'ws:', 'wss:'])
/** Maximum number of addresses of one torrent that are checked. Any more are removed. */
const maxHosts = 100

/** The allowed addresses, in their order. */
async function reachable(addresses: readonly string[], mayReach: HostCheck): Promise<ReadonlySet<string>> {
  const checks = [...new Set(addresses)].slice(0, maxHosts).map(async (address) => {
    const url = parseUrl(address)
    const isWellFormed = url && schemes.has(url.protocol) && url.username === '' && url.password === ''
    return isWellFormed && (await mayReach(url)) ? [address] : []
  })
  return new Set((await Promise.all(checks)).flat())
}

/** Parameters of a magnet link that contain hosts: trackers, web seeds, other sources. */
const hostParameters: ReadonlySet<string> = new Set(['tr', 'ws', 'as', 'xs'])
const plainParameters: ReadonlySet<string> = new Set(['xt', 'dn', 'xl', 'so'])

/** The link without denied hosts. Rejects with `invalid` if it is not a magnet link to a torrent. */
export async function sanitizedMagnet(link: string, mayReach: HostCheck): Promise<string> {
  const query = new URLSearchParams(link.replace(/^magnet:\?/i, ''))
  const topics = query.getAll('xt').filter((topic) => /^urn:bt(ih|mh):[0-9a-z]+$/i.test(topic))
  if (topics.length === 0) throw new GatewayError('invalid', { reason: 'the magnet link names no torrent' })
  const baseName = (key: string) => key.replace(/\.\d+$/, '')
  const hosts = [...query].filter(([key]) => hostParameters.has(baseName(key)))
  const allowed = await reachable(
    hosts.map(([, value]) => value),
    mayReach,
  )
  const parameters = [...query].filter(([key, value]) => {
    // URLSearchParams has replaced bytes that are not UTF-8. A name is only shown until the torrent is known.
    if (!isDecoded(value)) return false
    if (key === 'xt') return topics.includes(value)
    return plainParameters.has(key) || (hostParameters.has(baseName(key)) && allowed.has(value))
  })
  // Not every program decodes percent-encoded colons in the topic.
  const encodedParameters = parameters.map(
    ([key, value]) => `${key}=${key === 'xt' ? value : encodeURIComponent(value)}`,
  )
  return `magnet:?${encodedParameters.join('&')}`
}

/** Keys of a torrent that contain no hosts, or whose hosts are checked. */
const allowedKeys: ReadonlySet<string> = new Set([
  ...['announce', 'announce-list', 'comment', 'created by', 'creation date', 'encoding', 'httpseeds', 'info'],
  ...['piece layers', 'url-list'],
])

/** The torrent without denied hosts. Rejects with `invalid` if the bytes are not a torrent. */
export async function sanitizedTorrent(file: Buffer, mayReach: HostCheck): Promise<Buffer> {
  const members = membersOf(file)
  if (!members.has('info')) throw notTorrent()
  const value = (key: string): Value | undefined => {
    const bytes = members.get(key)
    return bytes && new Bencoded(bytes, maxAddresses).value()
  }
  const tiers = listOf(value('announce-list')).map((tier) => textsOf(tier))
  const single = textsOf(value('announce'))
  const seeds = { 'url-list': textsOf(value('url-list')), httpseeds: textsOf(value('httpseeds')) }
  const allowed = await reachable([...single, ...tiers.flat(), ...Object.values(seeds).flat()], mayReach)
  const sanitized = new Map([...members].filter(([key]) => allowedKeys.has(key)))
  const put = (key: string, addresses: readonly Value[], as: (all: readonly Value[]) => Value) => {
    if (addresses.length > 0) sanitized.set(key, encoded(as(addresses)))
    else sanitized.delete(key)
  }
  const isAllowed = (address: string) => allowed.has(address)
  put('announce', single.filter(isAllowed).map(bytesOf), ([first]) => first ?? Buffer.alloc(0))
  const allowedTiers = tiers.map((tier) => tier.filter(isAllowed).map(bytesOf)).filter((tier) => tier.length > 0)
  put('announce-list', allowedTiers, (all) => all)
  for (const [key, addresses] of Object.entries(seeds)) put(key, addresses.filter(isAllowed).map(bytesOf), (all) => all)
  const parts = [...sanitized].sort(([one], [other]) => Buffer.compare(Buffer.from(one), Buffer.from(other)))
  const encodedParts = parts.flatMap(([key, bytes]) => [encoded(Buffer.from(key)), bytes])
  return Buffer.concat([Buffer.from('d'), ...encodedParts, Buffer.from('e')])
}

/** The values of the outermost dictionary, as encoded bytes. */
function membersOf(file: Buffer): ReadonlyMap<string, Buffer> {
  return new Bencoded(file, maxValues).members()
}

type Value = number | Buffer | readonly Value[]

function listOf(value: Value | undefined): readonly Value[] {
  return Array.isArray(value) ? (value as readonly Value[]) : []
}

/** The texts of a text or a list of texts. Leaves out those that are not UTF-8. */
function textsOf(value: Value | undefined): readonly string[] {
  const all = Buffer.isBuffer(value) ? [value] : listOf(value)
  return all.filter((each) => Buffer.isBuffer(each)).flatMap((each) => decodeUtf8(each) ?? [])
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

/** Maximum nesting of dictionaries and lists. */
const maxDepth = 32
/** Numbers of values in a torrent, and in a list of addresses. They are parsed in one turn of the event loop. */
const maxValues = 500_000
const maxAddresses = 50_000
const maxDigits = 16

/** Parses bencoding (BEP 3). Throws `invalid` for malformed input. */
class Bencoded {
  #position = 0
  #values = 0

  constructor(
    private readonly bytes: Buffer,
    private readonly maxValues: number,
  ) {}

  /** The values of the outermost dictionary, as encoded bytes. No bytes may follow it. */
  members(): ReadonlyMap<string, Buffer> {
    const found = new Map<string, Buffer>()
    this.#consume('d')
    while (!this.#consumeEnd()) {
      const key = this.#text().toString('latin1')
      const from = this.#position
      this.#skip(0)
      found.set(key, this.bytes.subarray(from, this.#position))
    }
    if (this.#position !== this.bytes.length) throw notTorrent()
    return found
  }

  /** The next value. A dictionary is returned as an empty list. */
  value(): Value {
    return this.#value(0)
  }

  #value(depth: number): Value {
    this.#count(depth)
    const kind = this.#kind()
    if (kind === 'i') return this.#integer()
    if (kind !== 'l' && kind !== 'd') return this.#text()
    if (kind === 'd') {
      this.#skip(depth)
      return []
    }
    const all: Value[] = []
    this.#consume('l')
    while (!this.#consumeEnd()) all.push(this.#value(depth + 1))
    return all
  }

  #count(depth: number): void {
    if (depth > maxDepth) throw notTorrent()
    if (++this.#values > this.maxValues) {
      throw new GatewayError('invalid', { reason: 'the torrent has too many files or addresses' })
    }
  }

  #skip(depth: number): void {
    this.#count(depth)
    const kind = this.#kind()
    if (kind === 'i') this.#integer()
    else if (kind === 'l' || kind === 'd') {
      this.#consume(kind)
      while (!this.#consumeEnd()) this.#skip(depth + 1)
    } else this.#text()
  }

  #kind(): string {
    return String.fromCharCode(this.bytes[this.#position] ?? 0)
  }

  #consume(kind: string): void {
    if (this.#kind() !== kind) throw notTorrent()
    this.#position += 1
  }

  /** Consumes the end of a list or dictionary. False if the next byte is not that end. */
  #consumeEnd(): boolean {
    if (this.#position >= this.bytes.length) throw notTorrent()
    if (this.#kind() !== 'e') return false
    this.#position += 1
    return true
  }

  #integer(): number {
    this.#consume('i')
    const isNegative = this.#kind() === '-'
    if (isNegative) this.#position += 1
    const value = this.#number('e')
    return isNegative ? -value : value
  }

  #text(): Buffer {
    const length = this.#number(':')
    const from = this.#position
    this.#position += length
    if (this.#position > this.bytes.length) throw notTorrent()
    return this.bytes.subarray(from, this.#position)
  }

  /** The digits before `end`. */
  #number(end: string): number {
    const from = this.#position
    let value = 0
    for (let kind = this.#kind(); kind >= '0' && kind <= '9'; kind = this.#kind()) {
      if (this.#position - from >= maxDigits) throw notTorrent()
      value = value * 10 + Number(kind)
      this.#position += 1
    }
    if (this.#position === from) throw notTorrent()
    this.#consume(end)
    return value
  }
}
