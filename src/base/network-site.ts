/** Sites of networks. */

/**
 * The first three groups of an IPv6 network as `networkOf` writes it: whoever has many networks often has all of that
 * /48. Another network is its own.
 */
export function siteOf(network: string): string {
  return network.split(':', 3).join(':')
}
