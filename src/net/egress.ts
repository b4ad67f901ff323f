/**
 * Guards outgoing connections to hosts that were not chosen by an admin: by a user with a URL to fetch, or by a server
 * with a redirect. Only the public internet and networks that an admin has allowed are permitted.
 *
 * The guard checks the resolved address at the time of the connection, which protects against DNS rebinding.
 */
import { lookup, type LookupAddress, type LookupAllOptions } from 'node:dns'
import { Agent as HttpAgent, type AgentOptions } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { connect, isIP, isIPv4, type BlockList, type LookupFunction, type Socket } from 'node:net'
import type { AgentPool, Egress } from '../contract/driver-env.js'
import { GatewayError } from '../base/errors.js'
import { groupsOf, isWithinNetworks, parseNetworks } from './addresses.js'

/**
 * IPv4 networks that are not the public internet: the special-purpose address registry (RFC 6890 and later additions),
 * multicast and reserved networks. The last entry is the address of Azure's platform services, which return secrets of
 * the virtual machine.
 */
const specialIPv4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['224.0.0.0/4', '240.0.0.0/4', '168.63.129.16/32'],
]

/**
 * Only global unicast (RFC 4291 §2.4) is allowed, except protocol assignments, including Teredo, and documentation
 * networks.
 */
const globalIPv6 = '2000::/3'
const specialIPv6 = ['2001::/23', '2001:db8::/32', '3fff::/20']

/**
 * IPv6 networks that embed an IPv4 address, and its first group: mapped (RFC 4291), NAT64 (RFC 6052), 6to4 (RFC 3056).
 */
const embeddings = [
  { network: parseNetworks('::ffff:0:0/96'), group: 6 },
  { network: parseNetworks('64:ff9b::/96'), group: 6 },
  { network: parseNetworks('2002::/16'), group: 1 },
]

const special = parseNetworks([...specialIPv4, ...specialIPv6].join())
const global = parseNetworks(globalIPv6)

/** Whether connections to this IP address are allowed. For IPv6 with an embedded IPv4 address, checks the latter. */
export function isAllowedAddress(address: string, allowed: BlockList): boolean {
  const [plain = ''] = address.split('%')
  if (isIP(plain) === 0) return false
  const isIn = (networks: BlockList) => isWithinNetworks(networks, plain)
  if (isIPv4(plain)) return isIn(allowed) || !isIn(special)
  const embedding = embeddings.find(({ network }) => isIn(network))
  if (!embedding) return isIn(allowed) || (isIn(global) && !isIn(special))
  const embedded = groupsOf(plain).slice(embedding.group, embedding.group + 2)
  return isAllowedAddress(embedded.flatMap((group) => [group >> 8, group & 0xff]).join('.'), allowed)
}

/** Milliseconds after which an idle connection of a pool is closed. */
const pooledIdleTime = 15_000

type Resolve = (
  hostname: string,
  options: LookupAllOptions,
  done: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void

export class EgressGuard implements Egress {
  /** The text from which `#allowed` was parsed. */
  #text = ''
  #allowed = parseNetworks('')

  /** `allowedNetworks` returns the current setting, as text for `parseNetworks`. */
  constructor(
    private readonly allowedNetworks: () => string,
    private readonly resolve: Resolve = lookup,
  ) {}

  agentFor(url: URL): HttpAgent {
    assertPlainUrl(url)
    // The address is checked when a connection is made, so connections are not reused.
    return this.#agent(url.protocol, { keepAlive: false })
  }

  pool(): AgentPool {
    return new GuardedPool(
      (protocol) => this.#agent(protocol, { keepAlive: true, maxFreeSockets: 8, timeout: pooledIdleTime }),
      this.allowedNetworks,
    )
  }

  #agent(protocol: string, options: AgentOptions): HttpAgent {
    return protocol === 'http:' ? new GuardedHttpAgent(this, options) : new GuardedHttpsAgent(this, options)
  }

  /**
   * Starts a connection. Throws `denied` for a disallowed address; for a name that resolves to one, the socket emits
   * the error.
   */
  connect(to: { readonly host: string; readonly port: number }): Socket {
    return connect(guarded(this, to))
  }

  /** Throws `denied` for a disallowed address. */
  assertAllowed(address: string): void {
    if (!this.#isAllowed(address)) throw denied()
  }

  /** Like `dns.lookup`, but omits disallowed addresses; `denied` if none remain. */
  readonly lookup: LookupFunction = (hostname, options, done) => {
    this.resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error) {
        done(error, [])
        return
      }
      const permitted = found.filter(({ address }) => this.#isAllowed(address))
      const [first] = permitted
      if (!first) done(denied(), [])
      else if (options.all === true) done(null, permitted)
      else done(null, first.address, first.family)
    })
  }

  /** Whether the host is a disallowed address, in any notation of the URL standard. Names are not resolved. */
  forbidsHost({ hostname }: URL): boolean {
    // Only the hosts of some schemes, of which http is one, are normalized.
    const host = URL.canParse(`http://${hostname}`) ? plainHost(new URL(`http://${hostname}`)) : hostname
    return isIP(host) !== 0 && !this.#isAllowed(host)
  }

  /**
   * Whether all current addresses of the host are allowed, for a program that makes its own connections. The host may
   * resolve to another address by then.
   */
  async allowsHost(url: URL): Promise<boolean> {
    const host = plainHost(url)
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

/** The name of the host, or its address without brackets. */
function plainHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

function denied(): GatewayError {
  return new GatewayError('denied', { reason: 'the address leads into a network that is not allowed' })
}

/** Throws `invalid` for URLs that are not fetched, whatever their host. */
function assertPlainUrl(url: URL): void {
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new GatewayError('invalid', { reason: 'only addresses of http and https can be fetched' })
  }
  if (url.username !== '' || url.password !== '') {
    throw new GatewayError('invalid', { reason: 'the address must not contain a user name or password' })
  }
}

/**
 * Connections that are reused were checked when they were made. They are not used any more when the allowed networks
 * have changed since.
 */
class GuardedPool implements AgentPool {
  readonly #agents = new Map<string, HttpAgent>()
  #networks: string

  constructor(
    private readonly create: (protocol: string) => HttpAgent,
    private readonly allowedNetworks: () => string,
  ) {
    this.#networks = allowedNetworks()
  }

  agentFor(url: URL): HttpAgent {
    assertPlainUrl(url)
    const networks = this.allowedNetworks()
    if (networks !== this.#networks) {
      this.close()
      this.#networks = networks
    }
    const agent = this.#agents.get(url.protocol) ?? this.create(url.protocol)
    this.#agents.set(url.protocol, agent)
    return agent
  }

  close(): void {
    for (const agent of this.#agents.values()) {
      for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
      // Connections in use are closed when they become free.
      agent.maxFreeSockets = 0
    }
    this.#agents.clear()
  }
}

/**
 * Connection options with the guard's lookup. Node.js does not look up IP addresses (Node.js: lib/net.js), so these are
 * checked here.
 */
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
