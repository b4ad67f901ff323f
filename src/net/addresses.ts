/** Addresses of a host and a port. */
import { z } from 'zod'

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

/** The host to connect to, from this machine, for a server that listens on `host`. */
export function connectableHost(host: string): string {
  return host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
}
