/**
 * Lets connections over TLS to the hosts of a vendor lead to a server on loopback, whose certificate a test authority
 * has signed. Loaded by `--import` with `TIDEGATE_VENDOR_NAMES`, it does so in another process from its start.
 */
import { readFileSync } from 'node:fs'
import tls, { type ConnectionOptions } from 'node:tls'

export interface VendorNames {
  /** Host names; one that begins with `*.` stands for all names with one more label. */
  readonly names: readonly string[]
  /** Port on 127.0.0.1. */
  readonly port: number
  /** File with the certificate of the authority, in PEM. */
  readonly authority: string
}

/** Returns a function that ends the diversion. */
export function divertNames({ names, port, authority }: VendorNames): () => void {
  const ca = readFileSync(authority)
  const connect = tls.connect
  const diverted = (...parameters: unknown[]) => {
    const [options, ...rest] = parameters as [ConnectionOptions, ...unknown[]]
    const host = typeof options === 'object' ? (options.servername ?? options.host ?? '') : ''
    const isDiverted = names.includes(host) || names.includes(host.replace(/^[^.]+/, '*'))
    const to = isDiverted ? { ...options, host: '127.0.0.1', port, servername: host, ca } : options
    return Reflect.apply(connect, tls, [to, ...rest]) as unknown
  }
  tls.connect = diverted as typeof tls.connect
  return () => {
    tls.connect = connect
  }
}

const inherited = process.env.TIDEGATE_VENDOR_NAMES
if (inherited !== undefined) divertNames(JSON.parse(inherited) as VendorNames)
