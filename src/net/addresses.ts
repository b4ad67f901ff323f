/** IP addresses, networks of them, and addresses of a host and a port. */
import { BlockList, isIP, isIPv6, type IPVersion } from 'node:net'
import { z } from 'zod'
import { GatewayError } from '../base/errors.js'

/** Schema of `HOST:PORT`, with an IPv6 address in brackets. */
export const hostAndPort = z
  .string()
  .regex(/^(\[[0-9a-f:.]+\]|[^:\s]+):\d+$/i, 'must be HOST:PORT')
  .refine((text) => splitAddress(text).port <= 65535, 'a port is a number up to 65535')

/** Splits `HOST:PORT`; removes the brackets of an IPv6 address. */
export function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) }
}

/** The server of `syslog://HOST` or `syslog://HOST:PORT`, by default port 514. Undefined for other text. */
export function syslogServer(text: string): { readonly host: string; readonly port: number } | undefined {
  const address = /^syslog:\/\/(.+)$/.exec(text)?.[1]
  if (address === undefined) return undefined
  const withPort = /:\d+$/.test(address.replace(/^\[.*\]/, '')) ? address : `${address}:514`
  return hostAndPort.safeParse(withPort).success ? splitAddress(withPort) : undefined
}

/** The host to connect to, from this machine, for a server that listens on `host`. */
export function connectableHost(host: string): string {
  return host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
}

/**
 * The IP address without brackets, port and zone. IPv4-mapped IPv6 becomes IPv4. Undefined if it is not an IP address.
 */
export function plainAddress(text: string): string | undefined {
  const trimmed = text.trim()
  const bare =
    /^\[([^\]]*)\](?::\d*)?$/.exec(trimmed)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d*$/.exec(trimmed)?.[1] ?? trimmed
  const address = bare.replace(/%.*$/, '').toLowerCase()
  const version = isIP(address)
  if (version === 0) return undefined
  return (version === 6 && address.includes('ffff:') ? mappedAddress(address) : undefined) ?? address
}

/** The IPv4 address of an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2), in either spelling. Undefined for others. */
function mappedAddress(address: string): string | undefined {
  const groups = groupsOf(address)
  if (groups.slice(0, 6).join() !== '0,0,0,0,0,65535') return undefined
  return groups
    .slice(6)
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.')
}

/**
 * The network for counting failures: an IPv4 address (also one written as `::ffff:1.2.3.4`), or the /64 of an IPv6
 * address, which usually belongs to one customer. Other text is returned unchanged.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const plain = plainAddress(address) ?? address
  if (!isIPv6(plain)) return plain
  const first = groupsOf(plain).slice(0, 4)
  return `${first.map((group) => group.toString(16)).join(':')}::/64`
}

/** The eight groups of an IPv6 address without a zone. */
export function groupsOf(address: string): readonly number[] {
  // The URL parser normalizes the address; it also writes the last 32 bits as hexadecimal groups.
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)))
  const [first, last] = [groups(head), groups(tail)]
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last]
}

/**
 * An address, or a network in CIDR notation, as the arguments of `BlockList.addSubnet`, which ignores a zone. Undefined
 * for other text.
 */
export function subnetOf(text: string): [network: string, bits: number, type: IPVersion] | undefined {
  const [address = '', prefix, ...rest] = text.split('/')
  const version = isIP(address)
  const maxBits = version === 4 ? 32 : 128
  const bits = prefix === undefined ? maxBits : /^\d{1,3}$/.test(prefix) ? Number(prefix) : NaN
  if (version === 0 || rest.length > 0 || !(bits <= maxBits)) return undefined
  return [address, bits, version === 4 ? 'ipv4' : 'ipv6']
}

/**
 * Parses addresses and networks, separated by commas or whitespace. Throws `invalid` with the first malformed one, or
 * one with a zone.
 */
export function parseNetworks(text: string): BlockList {
  return networksOf(text.split(/[\s,]+/).filter((part) => part !== ''))
}

/** The list of these networks, each an address or a network in CIDR notation. Throws as `parseNetworks`. */
export function networksOf(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const subnet = network.includes('%') ? undefined : subnetOf(network)
    if (!subnet) {
      throw new GatewayError('invalid', { reason: `${network} is not an address or a network such as 10.0.0.0/8` })
    }
    list.addSubnet(...subnet)
  }
  return list
}

/** Whether one of the networks has the address. False for text that is no address. */
export function isWithinNetworks(networks: BlockList, address: string): boolean {
  return networks.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
