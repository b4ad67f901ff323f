/** What the first run says on stdout, once. */
import { networkInterfaces } from 'node:os'
import { sitePath } from '../../protocols/lib/client.js'
import type { Addresses, Config } from '../installation/config.js'
import { splitAddress } from '../net/addresses.js'

/**
 * Where the console can be opened, and what the connection does not protect. `addresses`: those that the daemon listens
 * on.
 */
export function firstRunLines(config: Pick<Config, 'site_url'>, addresses: Addresses): readonly string[] {
  const path = sitePath(config.site_url)
  const urlsOf = (scheme: 'http' | 'https') => {
    const address = addresses[scheme]
    if (address === undefined || address === 'off') return []
    return hostsOf(address).map((host) => `${scheme}://${host}:${splitAddress(address).port}${path}/`)
  }
  const plain = urlsOf('http')
  const lines = ['first run: open the console in a browser, at one of these addresses:']
  for (const url of [...urlsOf('https'), ...plain]) lines.push(`  ${url}`)
  if (plain.length > 0) {
    lines.push(
      'http:// is plain HTTP: whoever is on the way can read passwords and files. "https" encrypts (docs/operations.md).',
    )
  }
  return lines
}

/** The hosts by which clients reach the address: for all addresses of the machine, `localhost` and each of them. */
function hostsOf(address: string): readonly string[] {
  const { host } = splitAddress(address)
  const isV6 = host.includes(':')
  if (host !== '0.0.0.0' && host !== '::') return [isV6 ? `[${host}]` : host]
  const own = Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    // An address of a link alone needs the name of the client's interface.
    .filter(({ internal, scopeid }) => !internal && !scopeid)
    .filter(({ family }) => isV6 || family === 'IPv4')
    .map(({ address, family }) => (family === 'IPv6' ? `[${address}]` : address))
  return ['localhost', ...own]
}
