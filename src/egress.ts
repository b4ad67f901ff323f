/**
 * The way out to hosts that somebody other than an admin has named: a user by an address to fetch, a server by a redirect. It leads to
 * the public internet, and into those networks that an admin has allowed.
 *
 * What counts is the address of the connection itself: it is judged when the connection is made, after every look-up of a name, so
 * that a name which changes its address between two questions gains nothing.
 */
import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import { Agent as HttpAgent, type AgentOptions } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { BlockList, connect, isIP, isIPv4, type LookupFunction, type Socket } from 'node:net'
import type { Egress } from './driver.js'
import { GatewayError } from './errors.js'

/**
 * IPv4 that is not the public internet: the registry of special-purpose addresses (RFC 6890 and what it has taken in since), multicast
 * and what is reserved. The last one is where virtual machines of Azure ask for secrets of their own.
 */
const specialIPv4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/4', '240.0.0.0/4', '168.63.129.16/32'],
]

/** Of IPv6 all but global unicast (RFC 4291 §2.4), and within it protocol assignments with Teredo, and documentation. */
const globalIPv6 = '2000::/3'
const specialIPv6 = ['2001::/23', '2001:db8::/32', '3fff::/20']

/** IPv6 that stands for an IPv4 address, and the bytes of that: mapped (RFC 4291), NAT64 (RFC 6052), 6to4 (RFC 3056). */
const embeddings = [
  { prefix: '::ffff:0:0/96', at: 12 },
  { prefix: '64:ff9b::/96', at: 12 },
  { prefix: '2002::/16', at: 2 },
].map(({ prefix, at }) => ({ network: networkList([prefix]), at }))

const special = networkList([...specialIPv4, ...specialIPv6])
const global = networkList([globalIPv6])

/** The networks of a text, one a line or between commas. Rejects with `invalid`, naming the first that is none. */
export function parseNetworks(text: string): BlockList {
  return networkList(text.split(/[\s,]+/).filter((part) => part !== ''))
}

function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', prefix, ...rest] = network.split('/')
    const longest = isIP(address) === 4 ? 32 : 128
    const bits = prefix === undefined ? longest : /^\d{1,3}$/.test(prefix) ? Number(prefix) : NaN
    if (isIP(address) === 0 || address.includes('%') || rest.length > 0 || !(bits <= longest)) {
      throw new GatewayError('invalid', { reason: `${network} is no address and no network such as 10.0.0.0/8` })
    }
    list.addSubnet(address, bits, isIPv4(address) ? 'ipv4' : 'ipv6')
  }
  return list
}

/** Whether a connection to this IP address may be made; of IPv6 that stands for IPv4, that is what is judged. */
export function isAllowedAddress(address: string, allowed: BlockList): boolean {
  const [plain = ''] = address.split('%')
  if (isIPv4(plain)) return allowed.check(plain, 'ipv4') || !special.check(plain, 'ipv4')
  if (isIP(plain) === 0) return false
  const embedding = embeddings.find(({ network }) => network.check(plain, 'ipv6'))
  if (embedding)
    return isAllowedAddress(
      bytesOfIPv6(plain)
        .slice(embedding.at, embedding.at + 4)
        .join('.'),
      allowed,
    )
  return allowed.check(plain, 'ipv6') || (global.check(plain, 'ipv6') && !special.check(plain, 'ipv6'))
}

function bytesOfIPv6(address: string): number[] {
  // The URL parser writes the last 32 bits as groups of hexadecimal digits, too, whatever way they came.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)))
  const [first, last] = [groups(head), groups(tail ?? '')]
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last]
  return all.flatMap((group) => [group >> 8, group & 0xff])
}

type Resolve = (
  hostname: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void

export class EgressGuard implements Egress {
  #text = ''
  #allowed = networkList([])

  /** `allowedNetworks` tells the setting in force, as `parseNetworks` takes it. */
  constructor(
    private readonly allowedNetworks: () => string,
    private readonly resolve: Resolve = lookup,
  ) {}

  agentFor(url: URL): HttpAgent {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw new GatewayError('invalid', { reason: 'only addresses of http and https can be fetched' })
    }
    if (url.username !== '' || url.password !== '') {
      throw new GatewayError('invalid', { reason: 'an address to be fetched cannot hold a user name or password' })
    }
    // Of connections that are kept nobody would ask again.
    const options: AgentOptions = { keepAlive: false }
    return url.protocol === 'http:' ? new GuardedHttpAgent(this, options) : new GuardedHttpsAgent(this, options)
  }

  /** Begins a connection. Throws `denied` for an address; the socket fails with it for a name that leads to one. */
  connect(to: { readonly host: string; readonly port: number }): Socket {
    return connect(guarded(this, to))
  }

  /** Rejects with `denied`. */
  assertAllowed(address: string): void {
    if (!this.#isAllowed(address)) throw refusal()
  }

  /** As `dns.lookup`, without the addresses that are not allowed; `denied` where no other is left. */
  readonly lookup: LookupFunction = (hostname, options, done) => {
    this.resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error) {
        done(error, [])
        return
      }
      const good = found.filter(({ address }) => this.#isAllowed(address))
      const [first] = good
      if (!first) done(refusal(), [])
      else if (options.all === true) done(null, good)
      else done(null, first.address, first.family)
    })
  }

  /**
   * Whether every address that the host has now is allowed: for a program that connects by itself. Nothing keeps the host from having
   * another one by then.
   */
  async mayReach({ hostname }: URL): Promise<boolean> {
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(host) !== 0) return this.#isAllowed(host)
    return new Promise((resolve) => {
      this.resolve(host, { all: true }, (error, found) => {
        resolve(!error && found.length > 0 && found.every(({ address }) => this.#isAllowed(address)))
      })
    })
  }

  #isAllowed(address: string): boolean {
    const text = this.allowedNetworks()
    if (text !== this.#text) {
      this.#allowed = parseNetworks(text)
      this.#text = text
    }
    return isAllowedAddress(address, this.#allowed)
  }
}

function refusal(): GatewayError {
  return new GatewayError('denied', { reason: 'the address leads into a network that is not allowed' })
}

/** No name is looked up for a host that is an address: it is judged before. */
function guarded<T extends { readonly host?: string | null | undefined }>(guard: EgressGuard, options: T) {
  const host = options.host ?? 'localhost'
  if (isIP(host) !== 0) guard.assertAllowed(host)
  return { ...options, lookup: guard.lookup }
}

class GuardedHttpAgent extends HttpAgent {
  constructor(
    private readonly guard: EgressGuard,
    options: AgentOptions,
  ) {
    super(options)
  }

  override createConnection(...[options, done]: Parameters<HttpAgent['createConnection']>) {
    return super.createConnection(guarded(this.guard, options), done)
  }
}

class GuardedHttpsAgent extends HttpsAgent {
  constructor(
    private readonly guard: EgressGuard,
    options: AgentOptions,
  ) {
    super(options)
  }

  override createConnection(...[options, done]: Parameters<HttpsAgent['createConnection']>) {
    return super.createConnection(guarded(this.guard, options), done)
  }
}
