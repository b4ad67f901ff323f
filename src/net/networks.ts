/** The networks by which clients are counted. */
import { isIPv6 } from 'node:net'

/**
 * The network for counting failures: an IPv4 address (also one written as `::ffff:1.2.3.4`), or the /64 of an IPv6
 * address, which usually belongs to one customer.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [plain = ''] = address.toLowerCase().split('%')
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1]
  if (mapped !== undefined) return mapped
  if (!isIPv6(plain)) return plain
  const [left = '', right] = plain.split('::')
  const head = left === '' ? [] : left.split(':')
  // An embedded IPv4 part replaces two groups, in the half that is not used here.
  const tail = right === undefined || right === '' ? [] : right.replace(/\d+\.\d+\.\d+\.\d+$/, '0:0').split(':')
  const missing = right === undefined ? 0 : Math.max(0, 8 - head.length - tail.length)
  const groups = [...head, ...Array<string>(missing).fill('0'), ...tail]
  const first = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16))
  return `${first.join(':')}::/64`
}
